/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snap-sim inside a test: the same parts as in the program, without HTTP. Requests go straight to
 * route_request(). What goes wrong here fails the running check test.
 */
#pragma once

#include "common/json.h"
#include "test/sim/api/status.h"
#include "test/sim/base/options.h"
#include "test/sim/base/sim.h"
#include "test/sim/store/store.h"

#define NS "nvidia-storage"
#define STORAGE_API "/apis/storage.dpu.nvidia.com/v1alpha1/namespaces/" NS
#define VOLUMES STORAGE_API "/dpuvolumes"
#define ATTACHMENTS STORAGE_API "/dpuvolumeattachments"

struct sim_world {
	struct sim_options options;
	struct sim sim;
};

/* Options as on the command line, NULL-terminated. --no-fabric is not implied. Returns true. */
bool world_start(struct sim_world *w, const char *const *args);
void world_end(struct sim_world *w); /* one that was not started is fine */
static inline void world_end_p(struct sim_world *w)
{
	world_end(w);
}
#define WORLD_ARGS(...) ((const char *const[]) { __VA_ARGS__, NULL })
/* Declares a world that runs from here to the end of the scope; stands among the declarations. */
#define WORLD(w, ...)                               \
	struct sim_world w AUTO(world_end) = { 0 }; \
	bool CAT_(w, _started) __attribute__((unused)) = world_start(&(w), WORLD_ARGS(__VA_ARGS__))

/* Only the API. */
#define PLAIN(w) WORLD(w, "--no-dpf", "--no-fabric")
/* With a policy and the nodes one and two, without devices. */
#define SEEDED_WITH(w, ...) \
	WORLD(w, "--no-fabric", "--seed", "--node=one", "--node=two", __VA_ARGS__)
#define SEEDED(w) SEEDED_WITH(w, "--seed")

struct api_answer {
	unsigned code;
	struct json *json; /* NULL when the body is none */
	char *text;
	struct reply reply; /* retry_after, cut, stream */
};
void answer_clear(struct api_answer *a);
static inline void answer_clear_p(struct api_answer *a)
{
	answer_clear(a);
}
/* path with its query; PATCH is a merge patch; body may be NULL. */
struct api_answer world_call(struct sim_world *w, const char *method, const char *path,
                             const char *body);
/* The same, asserting the code and throwing the answer away. */
void world_ok(struct sim_world *w, const char *method, const char *path, const char *body,
              unsigned code);

/* Objects with the fields that matter; malloc'ed JSON texts. */
char *volume_json_text(const char *name, const char *policy);
char *attachment_json_text(const char *name, const char *node, const char *volume,
                           const char *function, bool hotplug);
void world_make_volume(struct sim_world *w, const char *name);
void world_make_attachment(struct sim_world *w, const char *name, const char *node,
                           const char *volume);

/*
 * Waits until the string at the path of the object ("dpuvolumes/pvc-1") is `value`; value NULL:
 * until the object is gone. Returns the object (a new root), NULL when gone.
 */
struct json *world_until(struct sim_world *w, const char *object, const char *path,
                         const char *value);
void world_wait(struct sim_world *w, const char *object, const char *path, const char *value);
/* The message of a condition once it has the reason. */
void world_wait_condition(struct sim_world *w, const char *object, const char *type,
                          const char *reason, const char *message_part);
/* The volume, the attachment once DPF is done with it; new roots. */
struct json *world_bound(struct sim_world *w, const char *volume);
struct json *world_attached(struct sim_world *w, const char *attachment);
/* Adds a fault, or a list of them; removes all. */
void world_fault(struct sim_world *w, const char *spec);
void world_heal(struct sim_world *w);
