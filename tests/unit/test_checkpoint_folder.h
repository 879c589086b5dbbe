/* test_checkpoint_folder.h: a folder for each test of files and checkpoints, and tensors whose bytes are known. */
#ifndef LS_TESTS_TEST_CHECKPOINT_FOLDER_H
#define LS_TESTS_TEST_CHECKPOINT_FOLDER_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/files.h"
#include "../save_tensors.h"
#include "scratch.h"

/* Names in a folder, "." and ".." not counted; −1 when it is not there. */
static inline int count_names(const char *path) {
    int count = 0;
    DIR *dir = opendir(path);
    if (!dir) return -1;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return count;
}

static inline unsigned char known_byte(int tensor, size_t at, unsigned salt) {
    return (unsigned char)((at * 2654435761u >> 7) + (unsigned)tensor * 37 + salt * 101 + at / 251);
}

/* An tensor_reader; ctx is the salt. */
static inline ls_status read_known(void *ctx, int tensor, size_t byte_offset, void *host, size_t bytes) {
    const unsigned *salt = ctx;
    for (size_t i = 0; i < bytes; i++) ((unsigned char *)host)[i] = known_byte(tensor, byte_offset + i, *salt);
    return LS_OK;
}

/* Changes one byte of a file. */
static inline void flip_byte(const char *path, long at) {
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_not_equal(byte, EOF);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    assert_int_not_equal(fputc(byte ^ 1, file), EOF);
    assert_int_equal(fclose(file), 0);
}

#endif
