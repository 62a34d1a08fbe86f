/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A trace on several threads. It is cut at PSBs, where nothing but little state goes on (SDM 33.3.7
 * tells most of it again, 33.4.2.2 empties the CALL stack). A thread takes the next segment and
 * decodes it ahead of its turn, from an assumed state, into a buffer. When its turn comes, the
 * state behind the segment before is known: if the assumption was right, as far as it matters, the
 * buffer is handed over; if not, the segment is decoded again from the true state.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "flow.h"
#include "threads.h"

#define MAX_THREADS 256u
#define SEGMENT_BYTES                                                                              \
    (32u << 10) /* of the trace; the buffer of what it holds stays in the caches */
#define BUFFER_STEPS (1u << 20)
#define RUN_STEPS    (16u << 10)
#define BUFFER_ITEMS 4096u

struct pool {
    const void *bytes;
    size_t len_bytes;
    const struct ptd_image *image;
    struct ptd_flow_config config;
    size_t segment_bytes;
    bool no_timing;
    ptd_run_fn run;
    void *context;

    pthread_mutex_t lock;
    pthread_cond_t turned;
    /* Under the lock. */
    uint64_t next_offset; /* where the next segment begins */
    uint64_t next_turn;   /* its number */
    uint64_t turn;        /* number of the segment that is handed over */
    struct graph *graph;  /* the one that is not full; has a user more than workers use it */
    int result;           /* not 0: everybody stops */
    /* Of the thread whose turn it is. */
    struct flow_state truth; /* behind the segment before */
};

struct buffered {
    size_t step_count; /* in front of it, since the item before */
    struct ptd_item item;
};

struct worker {
    struct pool *pool;
    struct ptd_flow *flow;
    uint64_t begin, end, number; /* of its segment */
    struct flow_state assumed;
    struct ptd_run run;
    uint32_t *steps; /* BUFFER_STEPS */
    size_t step_count;
    struct buffered *items; /* BUFFER_ITEMS */
    size_t item_count;
    bool ended; /* the segment is decoded */
    bool handing_over;
};

/* ---- Handing over ---- */

static int hand_over(struct worker *worker, uint32_t *steps, size_t count,
                     const struct ptd_item *item)
{
    struct ptd_run run = {
        .steps = steps,
        .room = count,
        .no_timing = worker->pool->no_timing,
        .count = count,
        .has_item = item != NULL,
        .epoch = worker->flow->graph ? worker->flow->graph->epoch : 0,
    };

    if (count == 0 && !item)
        return 0;
    if (item)
        run.item = *item;
    return worker->pool->run(worker->pool->context, worker->flow, &run);
}

/*
 * An item of the first PSB+ as it is behind the segment before. False: what it tells was known, so
 * it is none.
 */
static bool correct(struct flow_state *state, struct ptd_item *item)
{
    bool news = state->fresh;

    switch ((enum ptd_item_type)item->type) {
    case PTD_ITEM_CR3:
        news = news || state->cr3 != item->value || state->nr != item->nr;
        state->cr3 = item->value;
        state->nr = item->nr;
        break;
    case PTD_ITEM_MODE:
        news = news || state->mode != item->value;
        state->mode = (uint8_t)item->value;
        break;
    case PTD_ITEM_TSX:
        news = news || state->tsx != item->value;
        state->tsx = (uint8_t)item->value;
        break;
    case PTD_ITEM_VMCS:
        news = news || state->vmcs != item->value;
        state->vmcs = item->value;
        break;
    default:
        news = true;
        break;
    }
    item->cr3 = state->cr3;
    item->nr = state->nr;
    item->mode = state->mode;
    return news;
}

static int hand_over_buffer(struct worker *worker)
{
    struct flow_state state = worker->pool->truth;
    uint32_t *steps = worker->steps;
    int result = 0;

    for (size_t i = 0; i < worker->item_count && result == 0; i++) {
        struct buffered *const buffered = &worker->items[i];
        const bool wanted = buffered->item.offset >= worker->flow->first_psb_end ||
                            worker->number == 0 || correct(&state, &buffered->item);

        result = hand_over(worker, steps, buffered->step_count, wanted ? &buffered->item : NULL);
        steps += buffered->step_count;
    }
    if (result == 0)
        result =
            hand_over(worker, steps, (size_t)(worker->steps + worker->step_count - steps), NULL);
    worker->item_count = worker->step_count = 0;
    return result;
}

/* ---- The graph ---- */

/* Under the lock. */
static void drop_graph(struct graph *graph)
{
    if (graph && --graph->users == 0)
        ptd_graph_free(graph);
}

/* Under the lock: whatever graph the worker had, it takes that of the pool. */
static void take_graph(struct worker *worker)
{
    struct graph *const old = worker->flow->graph, *const new = worker->pool->graph;

    if (old == new)
        return;
    new->users++;
    ptd_flow_set_graph(worker->flow, new);
    drop_graph(old);
}

/* The worker's graph is full, and none of its numbers is in use. PTD_OK or PTD_E_NOMEM. */
static int renew_graph(struct worker *worker)
{
    struct pool *const pool = worker->pool;
    int status = PTD_OK;

    (void)pthread_mutex_lock(&pool->lock);
    if (worker->flow->graph == pool->graph) {
        struct graph *const graph = ptd_graph_new(pool->image, true);

        if (graph) {
            graph->users = 1;
            graph->epoch = pool->graph->epoch + 1;
            drop_graph(pool->graph);
            pool->graph = graph;
        } else {
            status = PTD_E_NOMEM;
        }
    }
    take_graph(worker);
    (void)pthread_mutex_unlock(&pool->lock);
    return status;
}

/* ---- Decoding a segment ---- */

/* Into the buffer, until it is full or the segment ends. */
static int fill_buffer(struct worker *worker)
{
    struct ptd_run *const run = &worker->run;
    size_t since = 0;

    while (worker->item_count < BUFFER_ITEMS && BUFFER_STEPS - worker->step_count >= RUN_STEPS) {
        run->steps = worker->steps + worker->step_count;
        run->room = RUN_STEPS;

        const int status = ptd_flow_run_on(worker->flow, run, false);

        if (status == PTD_END)
            worker->ended = true;
        if (status != PTD_OK)
            return status == PTD_END ? PTD_OK : status;
        if (run->count == 0 && !run->has_item)
            return PTD_OK; /* the graph is full, and numbers in the buffer are still in use */
        worker->step_count += run->count;
        since += run->count;
        if (run->has_item) {
            worker->items[worker->item_count++] = (struct buffered){since, run->item};
            since = 0;
        }
    }
    return PTD_OK;
}

/* Straight to the one who wants it. */
static int stream(struct worker *worker)
{
    struct ptd_run *const run = &worker->run;
    int result = 0;

    run->steps = worker->steps;
    run->room = RUN_STEPS;
    while (!worker->ended && result == 0) {
        const int status = ptd_flow_run_on(worker->flow, run, false);

        if (status == PTD_END)
            worker->ended = true;
        else if (status != PTD_OK)
            return status;
        else if (run->count == 0 && !run->has_item)
            result = renew_graph(worker);
        else
            result = hand_over(worker, run->steps, run->count, run->has_item ? &run->item : NULL);
    }
    return result;
}

/* ---- Was the assumption right? ---- */

/* The state is what was assumed, or the first PSB+ told it. */
static bool is_as_assumed(const struct worker *worker)
{
    const struct flow_state *const truth = &worker->pool->truth, *const assumed = &worker->assumed;
    const struct ptd_flow *const flow = worker->flow;
    const uint8_t told = flow->told;

    if (truth->offset != worker->begin || truth->overflowed || truth->at_mov_cr3)
        return false;
    if (truth->fresh != assumed->fresh && !flow->first_psb_end)
        return false;
    if (!flow->first_psb_end && told)
        return false;
    return ((told & FLOW_TELLS_CR3) || (truth->cr3 == assumed->cr3 && truth->nr == assumed->nr)) &&
           ((told & FLOW_TELLS_MODE) || truth->mode == assumed->mode) &&
           ((told & FLOW_TELLS_TSX) || truth->tsx == assumed->tsx) &&
           ((told & FLOW_TELLS_VMCS) || truth->vmcs == assumed->vmcs);
}

static void restart(struct worker *worker, const struct flow_state *state)
{
    ptd_flow_restart(worker->flow, state, worker->end);
    worker->item_count = worker->step_count = 0;
    worker->ended = false;
}

/* It is this segment's turn. */
static int take_turn(struct worker *worker)
{
    struct pool *const pool = worker->pool;
    int result = 0;

    if (worker->number > 0 && !is_as_assumed(worker)) {
        if (pool->truth.offset >= worker->end)
            return 0; /* the segment before went on over this one */
        restart(worker, &pool->truth);
    } else {
        result = hand_over_buffer(worker);
    }
    if (result == 0)
        result = stream(worker);
    if (result == 0)
        pool->truth = ptd_flow_state(worker->flow);
    return result;
}

/* ---- Threads ---- */

/* False: there is no other, or somebody stopped. */
static bool next_segment(struct worker *worker)
{
    struct pool *const pool = worker->pool;
    struct ptd_packets packets;
    bool found;

    (void)pthread_mutex_lock(&pool->lock);
    found = pool->result == 0 && (pool->next_offset < pool->len_bytes || pool->next_turn == 0);
    if (found) {
        take_graph(worker);
        worker->begin = pool->next_offset;
        worker->number = pool->next_turn++;
        ptd_packets_init(&packets, pool->bytes, pool->len_bytes);
        if (pool->len_bytes - worker->begin > pool->segment_bytes) {
            (void)ptd_packets_seek(&packets, worker->begin + pool->segment_bytes);
            (void)ptd_packets_sync(&packets);
            pool->next_offset = ptd_packets_offset(&packets);
        } else {
            pool->next_offset = pool->len_bytes;
        }
        worker->end = pool->next_offset < pool->len_bytes ? pool->next_offset : UINT64_MAX;
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return found;
}

/* False: somebody stopped. */
static bool wait_for_turn(struct worker *worker)
{
    struct pool *const pool = worker->pool;
    bool goes_on;

    (void)pthread_mutex_lock(&pool->lock);
    while (pool->result == 0 && pool->turn != worker->number)
        (void)pthread_cond_wait(&pool->turned, &pool->lock);
    goes_on = pool->result == 0;
    (void)pthread_mutex_unlock(&pool->lock);
    return goes_on;
}

static void end_turn(struct pool *pool, int result)
{
    (void)pthread_mutex_lock(&pool->lock);
    pool->turn++;
    if (pool->result == 0)
        pool->result = result;
    (void)pthread_cond_broadcast(&pool->turned);
    (void)pthread_mutex_unlock(&pool->lock);
}

static void decode_segment(struct worker *worker)
{
    int status;

    worker->assumed.offset = worker->begin;
    if (worker->number > 0)
        restart(worker, &worker->assumed);
    else
        worker->flow->stop = worker->end;
    status = fill_buffer(worker);
    if (!wait_for_turn(worker))
        return;
    end_turn(worker->pool, status == PTD_OK ? take_turn(worker) : status);
}

static void *work(void *argument)
{
    struct worker *const worker = argument;

    while (next_segment(worker))
        decode_segment(worker);
    return NULL;
}

/* ---- The interface ---- */

static void worker_close(struct worker *worker)
{
    struct graph *const graph = worker->flow ? worker->flow->graph : NULL;

    ptd_flow_free(worker->flow);
    drop_graph(graph);
    free(worker->steps);
    free(worker->items);
}

static bool worker_open(struct worker *worker, struct pool *pool)
{
    memset(worker, 0, sizeof(*worker));
    worker->pool = pool;
    worker->flow = ptd_flow_new(pool->bytes, pool->len_bytes, pool->image, &pool->config);
    worker->steps = malloc(BUFFER_STEPS * sizeof(*worker->steps));
    worker->items = malloc(BUFFER_ITEMS * sizeof(*worker->items));
    if (!worker->flow || !worker->steps || !worker->items) {
        worker_close(worker);
        return false;
    }
    worker->run.no_timing = pool->no_timing;
    worker->assumed = ptd_flow_state(worker->flow);
    return true;
}

/* Runs the workers; the calling thread is the first. */
static int run_workers(struct pool *pool, struct worker *workers, unsigned count)
{
    pthread_t *const threads = calloc(count, sizeof(*threads));
    unsigned started = 1;

    if (!threads)
        return PTD_E_NOMEM;
    while (started < count && pthread_create(&threads[started], NULL, work, &workers[started]) == 0)
        started++;
    (void)work(&workers[0]); /* should a thread not start, the others do its work */
    for (unsigned i = 1; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    free(threads);
    return pool->result;
}

int ptd_flow_parallel_by(size_t segment_bytes, const void *bytes, size_t len_bytes,
                         const struct ptd_image *image, const struct ptd_flow_config *config,
                         bool no_timing, unsigned threads, ptd_run_fn run, void *context)
{
    struct pool pool = {
        .segment_bytes = segment_bytes,
        .bytes = bytes,
        .len_bytes = len_bytes,
        .image = image,
        .config = config ? *config : (struct ptd_flow_config){.mode = PTD_MODE_64},
        .no_timing = no_timing,
        .run = run,
        .context = context,
    };
    struct worker *workers;
    unsigned opened = 0;
    int result = PTD_E_NOMEM;

    if (threads == 0 || threads > MAX_THREADS || !run)
        return PTD_E_ARG;
    workers = calloc(threads, sizeof(*workers));
    pool.graph = ptd_graph_new(image, true);
    if (!workers || !pool.graph) {
        ptd_graph_free(pool.graph);
        free(workers);
        return PTD_E_NOMEM;
    }
    pool.graph->users = 1;
    (void)pthread_mutex_init(&pool.lock, NULL);
    (void)pthread_cond_init(&pool.turned, NULL);
    while (opened < threads && worker_open(&workers[opened], &pool))
        opened++;
    if (opened == threads)
        result = run_workers(&pool, workers, threads);
    while (opened > 0)
        worker_close(&workers[--opened]);
    drop_graph(pool.graph);
    (void)pthread_cond_destroy(&pool.turned);
    (void)pthread_mutex_destroy(&pool.lock);
    free(workers);
    return result;
}

int ptd_flow_parallel(const void *bytes, size_t len_bytes, const struct ptd_image *image,
                      const struct ptd_flow_config *config, bool no_timing, unsigned threads,
                      ptd_run_fn run, void *context)
{
    return ptd_flow_parallel_by(SEGMENT_BYTES, bytes, len_bytes, image, config, no_timing, threads,
                                run, context);
}
