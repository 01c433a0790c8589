#include "state/table.h"

void
metric_add(struct state *state, enum metric metric, uint64_t n)
{
	uint64_t *counters =
	    atomic_load_explicit(&state->counters, memory_order_acquire);

	__atomic_fetch_add(&counters[metric], n, __ATOMIC_RELAXED);
}

uint64_t
metric_sum(struct state *state, enum metric metric)
{
	struct table *t = state->table;
	uint64_t sum;

	peer_reap(state, 50);
	if (table_lock(t) != ERR_OK)
		return 0;
	sum = t->head->totals[t->head->totals_at & 1][metric];
	for (uint32_t i = 0; i < table_high(t, POOL_PROCESS); i++) {
		struct process_slot *p = table_process(t, i);

		if (p->slot.state == SLOT_USED)
			sum += __atomic_load_n(
			    &p->counters[metric], __ATOMIC_RELAXED);
	}
	table_unlock(t);
	return sum;
}
