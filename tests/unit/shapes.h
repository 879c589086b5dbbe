/* shapes.h: reading shapes from text in tests. */
#ifndef LS_TESTS_SHAPES_H
#define LS_TESTS_SHAPES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/shape_file.h"

static ls_shape read_text(const char *source, const char *text) {
    ls_shape shape;
    ls_status status = ls_shape_parse(source, text, strlen(text), &shape);
    if (status != LS_OK) fail_msg("%s gave '%s'", text, ls_status_message());
    return shape;
}

static void refuse_text(const char *source, const char *text, const char *part) {
    ls_shape shape = {.V = 77};
    ls_status status = ls_shape_parse(source, text, strlen(text), &shape);
    if (status != LS_ERR_INPUT || !strstr(ls_status_message(), part))
        fail_msg("%s\n%s: wanted '%s', got '%s'", text, ls_status_name(status), part, ls_status_message());
    if (strncmp(ls_status_message(), source, strlen(source)) != 0)
        fail_msg("'%s' does not name the file", ls_status_message());
    assert_int_equal(shape.V, 77);
}

static void assert_same(const ls_shape *a, const ls_shape *b) {
    assert_string_equal(a->name, b->name);
    assert_true(a->arch == b->arch && a->V == b->V && a->C == b->C && a->L == b->L && a->H == b->H && a->T == b->T);
    assert_true(a->kv_heads == b->kv_heads && a->head_size == b->head_size && a->hidden == b->hidden);
    assert_true(a->tied == b->tied && a->attention_bias == b->attention_bias && a->mlp_bias == b->mlp_bias);
    assert_true(a->eps == b->eps && a->init_std == b->init_std && a->rope.base == b->rope.base);
    assert_true(a->rope.scaled == b->rope.scaled && a->rope.factor == b->rope.factor);
    assert_true(a->rope.low_factor == b->rope.low_factor && a->rope.high_factor == b->rope.high_factor);
    assert_int_equal(a->rope.original_T, b->rope.original_T);
}

#endif
