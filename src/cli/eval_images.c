/* eval_images.c: `lockstep eval` of a model of images: loss and accuracy over the test images. */
#include "cli/eval_images.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "run/inputs/image.h"
#include "cli/print_json.h"
#include "run/stop.h"

typedef struct source {
    const ls_images *images;
    uint64_t first;
    uint64_t *index;
    uint32_t side; /* that the model sees, where images are larger: their middle is taken; 0: they are not */
} source;

static ls_status read_images(void *ctx, size_t begin, size_t end, float *pixels, int32_t *classes) {
    source *s = ctx;
    ls_augment plain = {.fixed = true, .crop = s->side};
    for (size_t i = begin; i < end; i++) s->index[i - begin] = s->first + i;
    return ls_images_fill(s->images, s->index, end - begin, &plain, LS_IMAGES_NHWC, pixels, classes);
}

typedef struct result {
    ls_loss_sum sum;
    int64_t right;
    uint64_t count;
    double seconds;
} result;

static ls_status measure(ls_one_worker *one, source *from, result *r) {
    ls_partition_feed feed = {.ctx = from, .images = read_images};
    r->count = ls_images_get_about(from->images)->count;
    double start = ls_clock_seconds();
    for (; from->first < r->count; from->first += one->micro) {
        uint64_t left = r->count - from->first;
        size_t count = left < one->micro ? (size_t)left : one->micro;
        LS_TRY(ls_partition_evaluate(one->partition, count, 1, &feed, &r->sum, &r->right));
        LS_TRY(ls_stop_status());
    }
    r->seconds = ls_clock_seconds() - start;
    return LS_OK;
}

static ls_status print(const ls_options *o, const result *r) {
    double loss = r->sum.bad ? (double)NAN : ls_loss_sum_mean(&r->sum), share = (double)r->right / (double)r->count;
    if (!o->json) {
        printf("loss        %.6f (%a)\n", loss, loss);
        printf("accuracy    %.2f %%, %lld right\n", 100 * share, (long long)r->right);
        printf("images      %llu in %.1f s (%.0f img/s)\n", (unsigned long long)r->count, r->seconds,
               (double)r->count / r->seconds);
        return LS_OK;
    }
    char hex[64];
    snprintf(hex, sizeof hex, "%a", loss);
    json_t *object =
        json_pack("{s:o, s:s, s:f, s:I, s:I, s:f}", "loss", json_real(loss), "loss_hex", hex, "accuracy", share,
                  "right", (json_int_t)r->right, "images", (json_int_t)r->count, "seconds", r->seconds);
    if (!object) return ls_fail(LS_ERR_FAILED, "the loss is not finite (%s)", hex);
    return ls_cli_print_json(object);
}

ls_status ls_eval_images(const ls_options *o, ls_one_worker *one) {
    ls_images *images = NULL;
    result r = {0};
    const ls_image_shape *sees = &one->start.shape.image;
    bool square = sees->height == sees->width;
    if (o->source[LS_OPT_stride].origin == LS_ORIGIN_FLAG)
        return ls_options_fail(o, LS_OPT_stride, "%s is an image model, which has no windows of tokens: leave it out",
                               one->start.shape.name);
    LS_TRY(ls_image_option_open(o->data, &one->start.shape, square, LS_IMAGES_TEST, 0, &images));
    source from = {.images = images, .index = malloc(one->micro * sizeof *from.index)};
    if (square) from.side = (uint32_t)sees->height;
    ls_status status = from.index ? measure(one, &from, &r) : ls_fail(LS_ERR_RESOURCE, "out of memory for a batch");
    if (status == LS_OK) status = print(o, &r);
    free(from.index);
    ls_images_close(images);
    return status;
}
