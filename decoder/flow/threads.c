/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A trace on several threads. It is cut at PSBs, where nothing but little state goes on (SDM 33.3.7
 * tells most of it again, 33.4.2.2 empties the CALL stack). A thread takes the next segment and
 * decodes it ahead of its turn, from an assumed state, into a buffer. When its turn comes, the
 * state behind the segment before is known: if the assumption was right, as far as it matters, the
 * buffer is handed over; if not, the segment is decoded again from the true state. A thread whose
 * turn has not come decodes some more segments before it waits.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/pages.h"
#include "code/image.h"
#include "flow/bulk.h"
#include "flow/flow.h"
#include "flow/graph.h"
#include "flow/threads.h"

#define MAX_THREADS 256u
/* Of the trace, at least: processors and perf have a PSB as often. */
#define SEGMENT_BYTES (16u << 10)
/* A buffer has room for so many steps a byte of the first segment, within limits. */
#define STEPS_A_BYTE      6u
#define BUFFER_STEPS      (1u << ROOM_LOG2(17))
#define BUFFER_STEPS_MOST (1u << ROOM_LOG2(19))
#define RUN_STEPS         (1u << ROOM_LOG2(14)) /* at least PTD_RUN_ROOM */
#define BUFFER_ITEMS      (1u << ROOM_LOG2(12))
#define BUFFER_MARKS      (1u << ROOM_LOG2(16))
#define RUN_MARKS         (1u << (ROOM_LOG2(12) + 1)) /* the same */
/* Where code is new, a segment takes several times as long as others. */
#define WORKER_JOBS 8u
#define FETCH_BYTES (32u << 10) /* what there is room for in a cache, besides all else */
/* A thread that sleeps is late when it wakes, by more than a segment takes. */
#define SPINS 20000u

struct pool {
    const void *bytes;
    size_t len_bytes;
    const struct ptd_image *image;
    struct ptd_flow_config config;
    size_t segment_bytes;
    enum ptd_timing timing;
    ptd_run_fn run;
    void *context;
    size_t buffer_steps; /* a job's room */

    pthread_mutex_t lock;
    pthread_cond_t turned;
    /* Written under the lock. */
    uint64_t turn; /* number of the segment that is handed over; read without the lock, too */
    int result;    /* not 0: everybody stops; read without the lock, too */
    /* Under the lock. */
    unsigned asleep;      /* who waits for turned */
    uint64_t next_offset; /* where the next segment begins */
    uint64_t next_turn;   /* its number */
    struct graph *graph;  /* the one that is not full; each worker shares it */
    /* Of the thread whose turn it is. */
    struct flow_state truth; /* behind the segment before */
};

/*
 * An item, and how many steps and marks come in front of it, behind the item before. .to and .nr
 * are those of struct ptd_run.
 */
struct buffered {
    size_t step_count, mark_count;
    uint64_t to;
    bool nr;
    struct ptd_item item;
};

/* A segment, and what was found in it. */
struct job {
    uint64_t begin, end, number;
    uint32_t *steps; /* buffer_steps */
    size_t step_count;
    uint64_t to;            /* where the last step led */
    bool nr;                /* of the last step */
    struct ptd_mark *marks; /* BUFFER_MARKS; 1 if none are wanted */
    size_t mark_count;
    struct buffered *items; /* BUFFER_ITEMS */
    size_t item_count;
    int status;
    bool stale; /* it has to be decoded again */
    bool ended; /* all of it was found, up to this state: */
    struct flow_state after;
    struct first_psb first_psb;
};

struct worker {
    struct pool *pool;
    struct ptd_flow *flow;
    struct flow_state assumed;
    struct ptd_run run;
    struct job jobs[WORKER_JOBS];
    /*
     * The first count of them wait for their turn, oldest first; only the youngest may have not
     * ended. The others are free, the one that is in the cache rather than the others first.
     */
    struct job *queue[WORKER_JOBS];
    unsigned count;
};

/* ---- Handing over ---- */

/* What run points to, and the item if there is one. */
static int hand_over(struct worker *worker, struct ptd_run run, const struct ptd_item *item)
{
    if (run.count == 0 && run.mark_count == 0 && !item)
        return 0;
    run.room = run.count;
    run.mark_room = run.mark_count;
    run.timing = (uint8_t)worker->pool->timing;
    run.epoch = worker->flow->graph ? worker->flow->graph->epoch : 0;
    run.has_item = item != NULL;
    if (item)
        run.item = *item;
    return worker->pool->run(worker->pool->context, worker->flow, &run);
}

/*
 * An item of the first PSB+ as it is behind the segment before. False: what it tells was known, so
 * it is none.
 */
static bool correct(const struct ptd_image *image, struct flow_state *state, struct ptd_item *item)
{
    const struct flow_fact fact = {item->type, item->nr, item->value};
    const bool is_news = !ptd_state_fact_bit(item->type) || ptd_state_learn(state, image, &fact);

    item->cr3 = state->cr3;
    item->nr = state->nr;
    item->mode = state->mode;
    return is_news;
}

/* NULL: none are wanted. */
static struct ptd_mark *marks_from(const struct job *job, size_t first)
{
    return job->marks ? job->marks + first : NULL;
}

static int hand_over_buffer(struct worker *worker, const struct job *job)
{
    struct flow_state state = worker->pool->truth;
    struct ptd_run part = {.steps = job->steps};
    size_t marks = 0;
    int result = 0;

    for (size_t i = 0; i < job->item_count && result == 0; i++) {
        struct buffered *const buffered = &job->items[i];
        const bool wanted = job->number == 0 || buffered->item.offset >= job->first_psb.end ||
                            correct(worker->pool->image, &state, &buffered->item);

        part.count = buffered->step_count;
        part.to = buffered->to;
        part.nr = buffered->nr;
        part.marks = marks_from(job, marks);
        part.mark_count = buffered->mark_count;
        result = hand_over(worker, part, wanted ? &buffered->item : NULL);
        part.steps += part.count;
        marks += part.mark_count;
    }
    part.count = (size_t)(job->steps + job->step_count - part.steps);
    part.to = job->to;
    part.nr = job->nr;
    part.marks = marks_from(job, marks);
    part.mark_count = job->mark_count - marks;
    return result == 0 ? hand_over(worker, part, NULL) : result;
}

/* ---- The graph ---- */

/* Under the lock: whatever graph the worker had, it takes that of the pool. PTD_OK or _E_NOMEM. */
static int take_graph(struct worker *worker)
{
    const struct graph *const old = worker->flow->graph, *const new = worker->pool->graph;
    struct graph *graph;

    if (old && old->epoch == new->epoch)
        return PTD_OK;
    graph = ptd_graph_share(new);
    if (!graph)
        return PTD_E_NOMEM;
    ptd_bulk_set_graph(worker->flow, graph);
    return PTD_OK;
}

/* The jobs behind the oldest: all of them, or those that have not ended. */
static void spoil_younger_jobs(struct worker *worker, bool all)
{
    for (unsigned i = 1; i < worker->count; i++) {
        struct job *const job = worker->queue[i];

        job->stale = job->stale || all || !job->ended;
    }
}

/* The worker's graph is full while it has its turn. PTD_OK or PTD_E_NOMEM. */
static int renew_graph(struct worker *worker)
{
    struct pool *const pool = worker->pool;
    int status = PTD_OK;

    spoil_younger_jobs(worker, true); /* they have numbers of this graph */
    (void)pthread_mutex_lock(&pool->lock);
    if (worker->flow->graph->epoch == pool->graph->epoch) {
        struct graph *const graph =
            ptd_graph_new(pool->image, true, pool->len_bytes, pool->config.compounds);

        if (graph) {
            graph->epoch = pool->graph->epoch + 1;
            ptd_graph_free(pool->graph);
            pool->graph = graph;
        } else {
            status = PTD_E_NOMEM;
        }
    }
    if (status == PTD_OK)
        status = take_graph(worker);
    (void)pthread_mutex_unlock(&pool->lock);
    return status;
}

/* ---- Decoding a segment ---- */

static bool is_empty(const struct ptd_run *run)
{
    return run->count == 0 && run->mark_count == 0 && !run->has_item;
}

static bool has_room(const struct pool *pool, const struct job *job)
{
    return job->item_count < BUFFER_ITEMS && pool->buffer_steps - job->step_count >= RUN_STEPS &&
           BUFFER_MARKS - job->mark_count >= RUN_MARKS;
}

/* Into the buffer, until it is full or the segment ends. */
static int fill_buffer(struct worker *worker, struct job *job)
{
    struct ptd_run *const run = &worker->run;
    struct buffered since = {0};

    while (has_room(worker->pool, job)) {
        run->steps = job->steps + job->step_count;
        run->room = RUN_STEPS;
        run->marks = marks_from(job, job->mark_count);
        run->mark_room = RUN_MARKS;

        const int status = ptd_flow_run_on(worker->flow, run, false);

        if (status == PTD_END)
            job->ended = true;
        if (status != PTD_OK)
            return status == PTD_END ? PTD_OK : status;
        if (is_empty(run))
            return PTD_OK; /* the graph is full, and numbers in the buffer are still in use */
        for (size_t i = 0; i < run->mark_count; i++)
            run->marks[i].step += (uint32_t)since.step_count;
        if (run->count > 0) {
            since.to = job->to = run->to;
            since.nr = job->nr = run->nr;
        }
        job->step_count += run->count;
        job->mark_count += run->mark_count;
        since.step_count += run->count;
        since.mark_count += run->mark_count;
        if (run->has_item) {
            since.item = run->item;
            job->items[job->item_count++] = since;
            since.step_count = since.mark_count = 0;
        }
    }
    return PTD_OK;
}

/* The rest of a segment, straight to the one who wants it. */
static int stream(struct worker *worker, struct job *job)
{
    struct ptd_run *const run = &worker->run;
    int result = 0;

    run->steps = job->steps;
    run->room = RUN_STEPS;
    run->marks = job->marks;
    run->mark_room = RUN_MARKS;
    while (!job->ended && result == 0) {
        const int status = ptd_flow_run_on(worker->flow, run, false);

        if (status == PTD_END)
            job->ended = true;
        else if (status != PTD_OK)
            return status;
        else if (is_empty(run))
            result = renew_graph(worker);
        else
            result = hand_over(worker, *run, run->has_item ? &run->item : NULL);
    }
    job->after = ptd_flow_state(worker->flow);
    return result;
}

/* ---- Was the assumption right? ---- */

/* The state is what was assumed, or the first PSB+ told it. */
static bool is_as_assumed(const struct worker *worker, const struct job *job)
{
    const struct flow_state *const truth = &worker->pool->truth, *const assumed = &worker->assumed;
    const struct first_psb *const psb = &job->first_psb;

    if (job->stale || truth->offset != job->begin)
        return false;
    if (!psb->end && (psb->told || truth->fresh != assumed->fresh))
        return false;
    return ptd_state_agrees(truth, assumed, psb->told);
}

/* From the true state. */
static int decode_again(struct worker *worker, struct job *job)
{
    struct pool *const pool = worker->pool;

    if (pool->truth.offset >= job->end)
        return 0;                      /* the segment before went on over this one */
    spoil_younger_jobs(worker, false); /* the flow was in the middle of it */
    ptd_flow_restart(worker->flow, &pool->truth, job->end);
    job->ended = false;
    return stream(worker, job);
}

/* It is this segment's turn. */
static int take_turn(struct worker *worker, struct job *job)
{
    struct pool *const pool = worker->pool;
    int result;

    if (job->status != PTD_OK)
        return job->status;
    if (job->number > 0 && !is_as_assumed(worker, job)) {
        job->after = pool->truth;
        result = decode_again(worker, job);
    } else {
        result = hand_over_buffer(worker, job);
        if (result == 0 && !job->ended)
            result = stream(worker, job);
    }
    pool->truth = job->after;
    return result;
}

/* ---- Threads ---- */

/* Of a segment that begins there: a PSB, or the end of the trace. */
static uint64_t segment_end(const struct pool *pool, uint64_t begin)
{
    struct ptd_packets packets;

    if (pool->len_bytes - begin <= pool->segment_bytes)
        return pool->len_bytes;
    ptd_packets_init(&packets, pool->bytes, pool->len_bytes);
    (void)ptd_packets_seek(&packets, begin + pool->segment_bytes);
    (void)ptd_packets_sync(&packets);
    return ptd_packets_offset(&packets);
}

/* False: there is no other, or somebody stopped. */
static bool next_segment(struct worker *worker, struct job *job)
{
    struct pool *const pool = worker->pool;
    bool found;

    (void)pthread_mutex_lock(&pool->lock);
    found = pool->result == 0 && (pool->next_offset < pool->len_bytes || pool->next_turn == 0);
    if (found) {
        job->status = worker->count == 0 ? take_graph(worker) : PTD_OK;
        job->begin = pool->next_offset;
        job->number = pool->next_turn++;
        pool->next_offset = segment_end(pool, job->begin);
        job->end = pool->next_offset < pool->len_bytes ? pool->next_offset : UINT64_MAX;
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return found;
}

/* What a processor fetches by itself ends with the page, and another has what came before. */
static void fetch(const struct pool *pool, const struct job *job)
{
    const uint8_t *const bytes = pool->bytes;
    const uint64_t end = job->end < pool->len_bytes ? job->end : pool->len_bytes;

    for (uint64_t at = job->begin; at < end && at - job->begin < FETCH_BYTES;
         at += CACHE_LINE_BYTES)
        __builtin_prefetch(bytes + at, 0, 2);
}

/* Decodes one more segment ahead of its turn. False: there is none. */
static bool decode_segment(struct worker *worker)
{
    struct job *const job = worker->queue[worker->count];

    if (!next_segment(worker, job))
        return false;
    worker->count++;
    fetch(worker->pool, job);
    worker->assumed.offset = job->begin;
    if (job->number > 0)
        ptd_flow_restart(worker->flow, &worker->assumed, job->end);
    else
        worker->flow->stop = job->end;
    job->item_count = job->step_count = job->mark_count = 0;
    job->ended = job->stale = false;
    if (job->status == PTD_OK)
        job->status = fill_buffer(worker, job);
    job->after = ptd_flow_state(worker->flow);
    job->first_psb = worker->flow->first_psb;
    return true;
}

static bool is_stopped(const struct pool *pool)
{
    return __atomic_load_n(&pool->result, __ATOMIC_RELAXED) != 0;
}

static bool is_turn(const struct pool *pool, uint64_t number)
{
    return __atomic_load_n(&pool->turn, __ATOMIC_ACQUIRE) == number;
}

/* Until it is the segment's turn, or somebody stops: awake for a moment, then asleep. */
static void wait_for_turn(struct pool *pool, uint64_t number)
{
    for (unsigned i = 0; i < SPINS; i++) {
        if (is_turn(pool, number) || is_stopped(pool))
            return;
        __builtin_ia32_pause();
    }
    (void)pthread_mutex_lock(&pool->lock);
    pool->asleep++;
    while (pool->result == 0 && pool->turn != number)
        (void)pthread_cond_wait(&pool->turned, &pool->lock);
    pool->asleep--;
    (void)pthread_mutex_unlock(&pool->lock);
}

/* Whether it is the oldest job's turn; may wait until it is, or until somebody stops. */
static bool has_turn(struct worker *worker, bool wait)
{
    struct pool *const pool = worker->pool;
    const uint64_t number = worker->queue[0]->number;

    if (wait)
        wait_for_turn(pool, number);
    return is_turn(pool, number) && !is_stopped(pool);
}

static void end_turn(struct pool *pool, int result)
{
    (void)pthread_mutex_lock(&pool->lock);
    if (pool->result == 0)
        __atomic_store_n(&pool->result, result, __ATOMIC_RELAXED);
    __atomic_store_n(&pool->turn, pool->turn + 1, __ATOMIC_RELEASE);
    if (pool->asleep > 0)
        (void)pthread_cond_broadcast(&pool->turned);
    (void)pthread_mutex_unlock(&pool->lock);
}

static void free_oldest_job(struct worker *worker)
{
    struct job *const job = worker->queue[0];

    worker->count--;
    for (unsigned i = 0; i < worker->count; i++)
        worker->queue[i] = worker->queue[i + 1];
    worker->queue[worker->count] = job;
}

/*
 * Hands over the oldest jobs, as far as it is their turn; may wait for that of the first. False: it
 * did not come.
 */
static bool finish_jobs(struct worker *worker, bool wait)
{
    bool finished = false;

    while (worker->count > 0 && has_turn(worker, wait && !finished)) {
        end_turn(worker->pool, take_turn(worker, worker->queue[0]));
        free_oldest_job(worker);
        finished = true;
    }
    return finished;
}

static bool can_decode_more(const struct worker *worker)
{
    return worker->count == 0 ||
           (worker->count < WORKER_JOBS && worker->queue[worker->count - 1]->ended);
}

static void *work(void *argument)
{
    struct worker *const worker = argument;

    for (;;) {
        (void)finish_jobs(worker, false);
        if (can_decode_more(worker) && decode_segment(worker))
            continue;
        if (worker->count == 0 || !finish_jobs(worker, true))
            return NULL; /* nothing more to do, or somebody stopped */
    }
}

/* ---- The interface ---- */

/* The first segment tells how far PSBs are from each other. */
static size_t choose_buffer_steps(const struct pool *pool)
{
    const uint64_t want = STEPS_A_BYTE * segment_end(pool, 0) + RUN_STEPS;
    size_t steps = BUFFER_STEPS;

    while (steps < want && steps < BUFFER_STEPS_MOST)
        steps *= 2;
    return steps;
}

static void worker_close(struct worker *worker)
{
    ptd_flow_free(worker->flow);
    for (unsigned i = 0; i < WORKER_JOBS; i++) {
        free(worker->jobs[i].steps);
        free(worker->jobs[i].items);
        free(worker->jobs[i].marks);
    }
}

static bool open_jobs(struct worker *worker, bool marks)
{
    for (unsigned i = 0; i < WORKER_JOBS; i++) {
        struct job *const job = &worker->jobs[i];

        worker->queue[i] = job;
        job->steps = malloc(worker->pool->buffer_steps * sizeof(*job->steps));
        job->items = malloc(BUFFER_ITEMS * sizeof(*job->items));
        job->marks = malloc((marks ? BUFFER_MARKS : 1) * sizeof(*job->marks)); /* never NULL */
        if (!job->steps || !job->items || !job->marks)
            return false;
    }
    return true;
}

static bool worker_open(struct worker *worker, struct pool *pool)
{
    memset(worker, 0, sizeof(*worker));
    worker->pool = pool;
    worker->flow = ptd_flow_new(pool->bytes, pool->len_bytes, pool->image, &pool->config);
    if (!worker->flow || !open_jobs(worker, pool->timing == PTD_TIMING_MARKS)) {
        worker_close(worker);
        return false;
    }
    worker->run.timing = (uint8_t)pool->timing;
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
                         enum ptd_timing timing, unsigned threads, ptd_run_fn run, void *context)
{
    struct pool pool = {
        .segment_bytes = segment_bytes,
        .bytes = bytes,
        .len_bytes = len_bytes,
        .image = image,
        .config = config ? *config : (struct ptd_flow_config){.mode = PTD_MODE_64},
        .timing = timing,
        .run = run,
        .context = context,
    };
    struct worker *workers;
    unsigned opened = 0;
    int result = PTD_E_NOMEM;

    if (threads == 0 || threads > MAX_THREADS || !run)
        return PTD_E_ARG;
    pool.buffer_steps = choose_buffer_steps(&pool);
    workers = calloc(threads, sizeof(*workers));
    pool.graph = ptd_graph_new(image, true, len_bytes, pool.config.compounds);
    if (!workers || !pool.graph) {
        ptd_graph_free(pool.graph);
        free(workers);
        return PTD_E_NOMEM;
    }
    ptd_lock_init(&pool.lock);
    (void)pthread_cond_init(&pool.turned, NULL);
    while (opened < threads && worker_open(&workers[opened], &pool))
        opened++;
    if (opened == threads)
        result = run_workers(&pool, workers, threads);
    while (opened > 0)
        worker_close(&workers[--opened]);
    ptd_graph_free(pool.graph);
    (void)pthread_cond_destroy(&pool.turned);
    (void)pthread_mutex_destroy(&pool.lock);
    free(workers);
    return result;
}

/* A code log is replayed from the start of the trace on. */
static int one_by_one(const void *bytes, size_t len_bytes, const struct ptd_image *image,
                      const struct ptd_flow_config *config, enum ptd_timing timing, ptd_run_fn run,
                      void *context)
{
    struct ptd_flow *const flow = ptd_flow_new(bytes, len_bytes, image, config);
    struct ptd_run part = {.room = RUN_STEPS, .timing = (uint8_t)timing, .mark_room = RUN_STEPS};
    int result = PTD_E_NOMEM;

    part.steps = calloc(part.room, sizeof(*part.steps));
    part.marks = calloc(part.mark_room, sizeof(*part.marks));
    if (flow && part.steps && part.marks) {
        do {
            result = ptd_flow_run(flow, &part);
            if (result == PTD_OK)
                result = run(context, flow, &part);
        } while (result == PTD_OK);
    }
    free(part.steps);
    free(part.marks);
    ptd_flow_free(flow);
    return result == PTD_END ? PTD_OK : result;
}

int ptd_flow_parallel(const void *bytes, size_t len_bytes, const struct ptd_image *image,
                      const struct ptd_flow_config *config, enum ptd_timing timing,
                      unsigned threads, ptd_run_fn run, void *context)
{
    if (threads > 0 && threads <= MAX_THREADS && run && ptd_image_code_log(image))
        return one_by_one(bytes, len_bytes, image, config, timing, run, context);
    return ptd_flow_parallel_by(SEGMENT_BYTES, bytes, len_bytes, image, config, timing, threads,
                                run, context);
}
