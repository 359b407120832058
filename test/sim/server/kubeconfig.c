/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the file of --write-kubeconfig, mode 0600 because it may contain the token. */
#include "test/sim/server/kubeconfig.h"

#include "common/file.h"

int kubeconfig_write(const struct sim_options *o, unsigned port, struct err *err)
{
	struct str out AUTO(str_clear) = STR_INIT(65536);

	str_addf(&out,
	         "apiVersion: v1\n"
	         "kind: Config\n"
	         "clusters:\n"
	         "- name: snap-sim\n"
	         "  cluster:\n"
	         "    server: http://%s:%u\n"
	         "users:\n"
	         "- name: snap-sim\n"
	         "  user:%s%s%s\n"
	         "contexts:\n"
	         "- name: snap-sim\n"
	         "  context:\n"
	         "    cluster: snap-sim\n"
	         "    user: snap-sim\n"
	         "    namespace: %s\n"
	         "current-context: snap-sim\n",
	         o->address, port, o->token ? "\n    token: \"" : " {}", o->token ? o->token : "",
	         o->token ? "\"" : "", o->namespace);
	return file_replace(o->kubeconfig, out.ptr, out.len, 0600, err);
}
