/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TCP relay that can turn into a peer that takes bytes and never answers, as a hung server or a
 * load balancer without its backend looks to the client.
 */
#pragma once

struct relay;

struct relay *relay_start(int target_port);
int relay_port(const struct relay *r);
/* Connections that are open now stay open but forward nothing any more; new ones work. */
void relay_freeze(struct relay *r);
unsigned relay_connections(struct relay *r); /* accepted so far */
void relay_stop(struct relay *r);
