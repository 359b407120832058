/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snap-sim inside a test: the parts of the program without HTTP. Requests go straight to
 * route_request(). An error here fails the running check test.
 */
#pragma once

#include "common/cleanup.h"
#include "common/json.h"
#include "test/sim/api/status.h"
#include "test/sim/base/options.h"
#include "test/sim/base/sim.h"
#include "test/sim/store/store.h"

#define NS "nvidia-storage"
#define BETA_API "/apis/storage.dpu.nvidia.com/v1beta1/namespaces/" NS
#define STORAGE_API "/apis/storage.dpu.nvidia.com/v1alpha1/namespaces/" NS
#define VOLUMES STORAGE_API "/dpuvolumes"
#define ATTACHMENTS STORAGE_API "/dpuvolumeattachments"

struct sim_world {
	struct sim_options options;
	struct sim sim;
};

/*
 * Starts it with options as on the command line, NULL-terminated; --no-fabric is not implied.
 * Returns true.
 */
bool world_start(struct sim_world *w, const char *const *args);
void world_end(struct sim_world *w); /* does nothing for one that was not started */
DEFINE_AUTO_VALUE(struct sim_world, world_end);
#define WORLD_ARGS(...) ((const char *const[]) { __VA_ARGS__, NULL })
/* Declares a world that lives until the end of the scope; belongs among the declarations. */
#define WORLD(w, ...)                               \
	struct sim_world w AUTO(world_end) = { 0 }; \
	bool CAT_(w, _started) __attribute__((unused)) = world_start(&(w), WORLD_ARGS(__VA_ARGS__))

/* The API without DPF. */
#define PLAIN(w) WORLD(w, "--no-dpf", "--no-fabric")
/* DPF with a policy and the nodes one and two, without devices. */
#define SEEDED_WITH(w, ...) \
	WORLD(w, "--no-fabric", "--seed", "--node=one", "--node=two", __VA_ARGS__)
#define SEEDED(w) SEEDED_WITH(w, "--seed")

struct api_answer {
	unsigned code;
	struct json *json; /* NULL: the body is not JSON */
	char *text;
	struct reply reply; /* retry_after, cut, stream */
};
void answer_clear(struct api_answer *a);
DEFINE_AUTO_VALUE(struct api_answer, answer_clear);
/* One request. path may have a query, body may be NULL; PATCH is a merge patch. */
struct api_answer world_call(struct sim_world *w, const char *method, const char *path,
                             const char *body);
/* The same; asserts the code and drops the answer. */
void world_ok(struct sim_world *w, const char *method, const char *path, const char *body,
              unsigned code);

/* JSON texts of objects; malloc'ed. */
char *volume_json_text(const char *name, const char *policy);
char *attachment_json_text(const char *name, const char *node, const char *volume,
                           const char *function, bool hotplug);
void world_make_volume(struct sim_world *w, const char *name);
void world_make_attachment(struct sim_world *w, const char *name, const char *node,
                           const char *volume);

/*
 * Waits until the string at the path of the object ("dpuvolumes/pvc-1") is `value`; value NULL:
 * until the object is deleted. Returns the object (a new root), NULL if deleted.
 */
struct json *world_until(struct sim_world *w, const char *object, const char *path,
                         const char *value);
void world_wait(struct sim_world *w, const char *object, const char *path, const char *value);
/* Waits until the condition has the reason, and the part in its message. */
void world_wait_condition(struct sim_world *w, const char *object, const char *type,
                          const char *reason, const char *message_part);
/* Waits until the volume is bound, or the attachment attached; new roots. */
struct json *world_bound(struct sim_world *w, const char *volume);
struct json *world_attached(struct sim_world *w, const char *attachment);
/* Add a fault or a list of them; remove all faults. */
void world_fault(struct sim_world *w, const char *spec);
void world_heal(struct sim_world *w);

/*
 * Whether the loop device has an image below dir: another program may have taken the device since.
 */
bool loop_is_below(unsigned number, const char *dir);
/*
 * Removes base and base's state directory. A failed test leaves devices; as root, the state
 * directory is opened first, which removes them.
 */
void state_remove(const char *base, const char *state);
