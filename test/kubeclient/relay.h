/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TCP relay that can turn into a peer that accepts bytes and never answers, like a hung server or
 * a load balancer without its backend.
 */
#pragma once

struct relay;

struct relay *relay_start(int target_port);
int relay_port(const struct relay *r);
/* Connections that are open now stay open but forward nothing; new ones work. */
void relay_freeze(struct relay *r);
unsigned relay_connections(struct relay *r); /* accepted so far */
void relay_stop(struct relay *r);
