/* shelf.c: finds runs in folders, sorts them, and makes the page of some of them. */
#include "report/live/shelf.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "comm/world/status_page.h"

enum { RUNS_MAX = 20000, VIEWS_MAX = 12 };
static const double SCAN_S = 3; /* seconds between searches for new runs */

/* A cached view of a run. */
typedef struct open_view {
    ls_view view;
    uint64_t id;   /* 0: free */
    uint64_t used; /* ls_shelf.clock when it was last used; the least is evicted */
} open_view;

struct ls_shelf {
    const char *const *paths;
    int path_count;
    ls_shelf_run *runs;
    size_t count;
    double scanned_s;
    open_view views[VIEWS_MAX];
    uint64_t clock;               /* counts uses of views */
    const ls_status_page *status; /* shared memory in which the workers of run status_of say what they do; NULL: none */
    uint64_t status_of;
    double status_s; /* when it was opened, or tried */
    ls_worker_now now[LS_WORKERS_MAX];
};

/* ---- finding ----------------------------------------------------------------------------------------------------- */

/* Returns whether the folder is that of a run, by its files. */
static bool is_run(const char *folder) {
    static const char *const marks[] = {"identity.json", "metrics.jsonl"};
    for (int i = 0; i < 2; i++) {
        ls_path path = ls_path_in(folder, marks[i]);
        if (access(path.text, F_OK) == 0) return true;
    }
    return false;
}

/* Adds the run, or marks a known one as there; ignores it beyond RUNS_MAX. */
static ls_status add_run(ls_shelf *s, const char *folder) {
    uint64_t id = ls_live_run_id(folder);
    for (size_t i = 0; i < s->count; i++)
        if (s->runs[i].id == id) {
            s->runs[i].is_there = true;
            return LS_OK;
        }
    if (s->count == RUNS_MAX) return LS_OK;
    LS_TRY(ls_array_grow(&s->runs, s->count, sizeof *s->runs, "runs"));
    ls_shelf_run *run = &s->runs[s->count++];
    *run = (ls_shelf_run){.folder = ls_path_format("%s", folder), .id = id, .is_there = true, .bytes = -1};
    run->loss = run->lr = run->norm = run->memory = run->gpu_memory = (double)NAN;
    size_t end = strlen(folder);
    while (end > 1 && folder[end - 1] == '/') end--;
    size_t begin = end;
    while (begin > 0 && folder[begin - 1] != '/') begin--;
    char name[PATH_MAX + 1];
    snprintf(name, sizeof name, "%.*s", (int)(end - begin), folder + begin);
    ls_run_log_copy_text(run->name, sizeof run->name, name);
    return LS_OK;
}

/* Looks for runs: each path is one, or a folder that contains some. Marks runs that it does not find as not there. */
static ls_status scan_paths(ls_shelf *s) {
    for (size_t i = 0; i < s->count; i++) s->runs[i].is_there = false;
    for (int p = 0; p < s->path_count; p++) {
        if (is_run(s->paths[p])) {
            LS_TRY(add_run(s, s->paths[p]));
            continue;
        }
        DIR *dir = opendir(s->paths[p]);
        ls_status status = LS_OK;
        for (struct dirent *e; dir && status == LS_OK && (e = readdir(dir)) != NULL;) {
            if (e->d_name[0] == '.' || (e->d_type != DT_DIR && e->d_type != DT_UNKNOWN && e->d_type != DT_LNK))
                continue;
            ls_path path = ls_path_in(s->paths[p], e->d_name);
            if (is_run(path.text)) status = add_run(s, path.text);
        }
        if (dir) (void)closedir(dir);
        LS_TRY(status);
    }
    return LS_OK;
}

/* Reads the last records of the run; leaves it as it was if that fails. */
static void read_end(ls_shelf_run *run) {
    ls_run_log log;
    if (ls_series_read_end(run->folder.text, &log) != LS_OK) return;
    ls_view_facts_find(&log, &run->facts);
    if (log.step_count > 0) {
        const ls_run_log_step *last = &log.steps[log.step_count - 1];
        run->loss = last->loss;
        run->lr = last->lr;
        run->norm = last->norm;
        for (size_t i = 0; i < log.step_count; i++) {
            if (isfinite(log.steps[i].memory)) run->memory = log.steps[i].memory;
            if (isfinite(log.steps[i].gpu_memory)) run->gpu_memory = log.steps[i].gpu_memory;
        }
    }
    ls_run_log_free(&log);
}

ls_status ls_shelf_create(const char *const *paths, int count, ls_shelf **out) {
    *out = calloc(1, sizeof **out);
    if (!*out) return ls_fail(LS_ERR_RESOURCE, "out of memory for the list of runs");
    (*out)->paths = paths;
    (*out)->path_count = count;
    (*out)->scanned_s = -1e9;
    return LS_OK;
}

/* Closes the view, if one is open, and frees its place. */
static void close_view(open_view *v) {
    if (v->id != 0) ls_view_close(&v->view);
    v->id = 0;
}

void ls_shelf_destroy(ls_shelf *s) {
    if (!s) return;
    for (int i = 0; i < VIEWS_MAX; i++) close_view(&s->views[i]);
    ls_status_page_close(s->status);
    free(s->runs);
    free(s);
}

ls_status ls_shelf_refresh(ls_shelf *s) {
    double now = ls_clock_seconds();
    if (now - s->scanned_s >= SCAN_S) {
        LS_TRY(scan_paths(s));
        s->scanned_s = now;
    }
    for (size_t i = 0; i < s->count; i++) {
        ls_shelf_run *run = &s->runs[i];
        struct stat about;
        ls_path metrics = ls_path_in(run->folder.text, "metrics.jsonl");
        if (!run->is_there) continue;
        if (stat(metrics.text, &about) != 0) {
            if (run->bytes < 0) {
                run->bytes = 0;
                read_end(run);
            }
            continue;
        }
        bool was_open = run->facts.state && strcmp(run->facts.state, "training") == 0;
        /* Between two steps of a run at work there is nothing to read, unless it has ended. */
        if (about.st_size == run->bytes && about.st_mtim.tv_sec == run->changed.tv_sec &&
            about.st_mtim.tv_nsec == run->changed.tv_nsec && (!was_open || ls_run_folder_is_open(run->folder.text)))
            continue;
        run->bytes = about.st_size;
        run->changed = about.st_mtim;
        read_end(run);
    }
    return LS_OK;
}

int ls_shelf_count(const ls_shelf *s) { return (int)s->count; }
const ls_shelf_run *ls_shelf_at(const ls_shelf *s, int i) { return &s->runs[i]; }

/* ---- order ------------------------------------------------------------------------------------------------------- */

/* Returns the number by which the table sorts: NaN if it is unknown, 0 for the order by name. */
static double key_of(const ls_shelf_run *run, ls_live_sort sort) {
    switch (sort) {
    case LS_LIVE_BY_STATE: return run->facts.state ? run->facts.state[0] : 0;
    case LS_LIVE_BY_STEP: return (double)run->facts.step;
    case LS_LIVE_BY_LOSS: return run->facts.train_loss;
    case LS_LIVE_BY_VALIDATION: return run->facts.loss;
    case LS_LIVE_BY_SPEED: return run->facts.speed;
    case LS_LIVE_BY_CHANGE: return (double)run->changed.tv_sec + 1e-9 * (double)run->changed.tv_nsec;
    default: return 0;
    }
}

/* Returns whether a comes before b in the query's order; runs with an unknown value come last in any order, and names
 * decide between equal ones. */
static bool comes_first(const ls_shelf_run *a, const ls_shelf_run *b, const ls_live_query *q) {
    double first = key_of(a, q->sort), second = key_of(b, q->sort);
    if (isnan(first) != isnan(second)) return isnan(second);
    if (first != second && !isnan(first)) return q->falls ? first > second : first < second;
    int names = strcmp(a->name, b->name);
    return q->falls && q->sort == LS_LIVE_BY_NAME ? names > 0 : names < 0;
}

/* Sorts stably (merge sort). room: space for `count` pointers. */
static void sort_runs(const ls_shelf_run **list, const ls_shelf_run **room, int count, const ls_live_query *q) {
    if (count < 2) return;
    int half = count / 2, a = 0, b = half, n = 0;
    sort_runs(list, room, half, q);
    sort_runs(list + half, room, count - half, q);
    while (a < half || b < count)
        room[n++] = b == count || (a < half && !comes_first(list[b], list[a], q)) ? list[a++] : list[b++];
    memcpy(list, room, (size_t)count * sizeof *list);
}

int ls_shelf_list(const ls_shelf *s, const ls_live_query *q, const ls_shelf_run **list, int most) {
    int count = 0;
    for (size_t i = 0; i < s->count && count < most; i++)
        if (s->runs[i].is_there && (!q->filter[0] || strcasestr(s->runs[i].name, q->filter)))
            list[count++] = &s->runs[i];
    const ls_shelf_run **room = malloc((size_t)(count + 1) * sizeof *room);
    if (room) sort_runs(list, room, count, q);
    free(room);
    return count;
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

/* Returns the run with this id, or NULL if it is not there. */
static const ls_shelf_run *find_run(const ls_shelf *s, uint64_t id) {
    for (size_t i = 0; i < s->count; i++)
        if (s->runs[i].id == id && s->runs[i].is_there) return &s->runs[i];
    return NULL;
}

/* Returns the view of the run, refreshed or newly opened in place of the one unused for longest; NULL if it cannot be
 * read. It belongs to the shelf. */
static ls_view *look_at(ls_shelf *s, const ls_shelf_run *run) {
    open_view *place = &s->views[0];
    bool changed = false;
    for (int i = 0; i < VIEWS_MAX; i++) {
        open_view *v = &s->views[i];
        if (v->id == run->id) {
            v->used = ++s->clock;
            return ls_view_refresh(&v->view, &changed) == LS_ERR_RESOURCE ? NULL : &v->view;
        }
        if (v->used < place->used) place = v;
    }
    close_view(place);
    if (ls_view_open(run->folder.text, &place->view) != LS_OK) return NULL;
    place->id = run->id;
    place->used = ++s->clock;
    return &place->view;
}

/* Returns the bytes of memory that a process uses; NaN if that is not known. */
static double memory_of(int pid) {
    ls_memory_use use;
    return ls_memory_of_process(pid, &use) ? use.bytes : (double)NAN;
}

/* Reads what the workers of an active run are doing from the memory that they share; returns false if that is unknown.
 * *out points into the shelf. */
static bool find_now(ls_shelf *s, const ls_view *view, uint64_t id, ls_run_now *out) {
    static const char *const looks[] = {
        [LS_STATUS_COMPUTES] = "u", [LS_STATUS_WAITS] = "i",  [LS_STATUS_EVALUATES] = "a",
        [LS_STATUS_SAVES] = "r",    [LS_STATUS_STARTS] = "y", [LS_STATUS_SILENT] = "v"};
    double now = ls_clock_seconds();
    bool stale = s->status && ls_status_page_kind(s->status, 0) == LS_STATUS_SILENT;
    if (s->status_of != id || stale || (!s->status && now - s->status_s > 2)) {
        ls_status_page_close(s->status);
        s->status = ls_view_log(view)->is_open ? ls_status_page_open(view->folder.text) : NULL;
        s->status_of = id;
        s->status_s = now;
    }
    if (!s->status) return false;
    int workers = atomic_load(&s->status->workers);
    if (workers < 1 || workers > LS_WORKERS_MAX) return false;
    for (int w = 0; w < workers; w++) {
        s->now[w].look = looks[ls_status_page_kind(s->status, w)];
        ls_status_page_text(s->status, w, s->now[w].doing, sizeof s->now[w].doing);
        s->now[w].memory_bytes = memory_of(atomic_load(&s->status->worker[w].pid));
    }
    *out = (ls_run_now){workers, s->now};
    return true;
}

uint64_t ls_shelf_state(const ls_shelf *s) {
    uint64_t now = s->count;
    for (size_t i = 0; i < s->count; i++) {
        const ls_shelf_run *run = &s->runs[i];
        const uint64_t about[] = {now,
                                  run->id,
                                  run->is_there,
                                  (uint64_t)run->bytes,
                                  (uint64_t)run->changed.tv_sec,
                                  (uint64_t)run->changed.tv_nsec,
                                  run->facts.state ? (uint64_t)run->facts.state[0] : 0};
        now = ls_hash_bytes(about, sizeof about).lo;
    }
    int workers = s->status ? atomic_load(&s->status->workers) : 0;
    for (int w = 0; w < workers && w < LS_WORKERS_MAX; w++) {
        const uint64_t about[] = {now, (uint64_t)ls_status_page_kind(s->status, w)};
        now = ls_hash_bytes(about, sizeof about).lo;
    }
    return now;
}

ls_status ls_shelf_page(ls_shelf *s, const ls_live_query *q, ls_page *page) {
    const ls_shelf_run *chosen[LS_RUN_PAGE_RUNS_MAX];
    ls_view views[LS_RUN_PAGE_RUNS_MAX];
    int count = 0, open = 0;
    for (int i = 0; i < q->runs; i++) {
        const ls_shelf_run *run = find_run(s, q->run[i]);
        if (run) chosen[count++] = run;
    }
    if (count == 0) { /* the one that changed last */
        ls_live_query newest;
        ls_live_query_init(&newest);
        for (size_t i = 0; i < s->count; i++)
            if (s->runs[i].is_there && (count == 0 || comes_first(&s->runs[i], chosen[0], &newest)))
                chosen[0] = &s->runs[i], count = 1;
    }
    for (int i = 0; i < count; i++) {
        ls_view *view = look_at(s, chosen[i]);
        if (!view) continue;
        chosen[open] = chosen[i]; /* of two runs one may be unreadable */
        views[open++] = *view;    /* borrowed */
    }
    if (open == 0) {
        ls_page_add(page, LS_PAGE_TITLE, "No run yet");
        LS_TEXT(page, "Nothing has been recorded here yet. This page updates when a run starts.");
        return LS_OK;
    }
    ls_run_now now;
    ls_run_page_options o = {.x = q->x, .smooth = q->smooth, .x_log = q->x_log, .y_log = q->y_log, .is_live = true};
    if (open == 1 && find_now(s, &views[0], chosen[0]->id, &now)) o.now = &now;
    return ls_run_page_fill(page, views, open, &o);
}
