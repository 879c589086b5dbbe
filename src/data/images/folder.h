/* folder.h: a folder of class folders of pictures.
 *
 *     set/train/cat/0001.png      the classes are the folders, in the order of their names (as bytes): cat 0, dog 1
 *     set/train/dog/a.ppm
 *     set/test/cat/9.png          test, or else val, holds the images to test with; its classes must be among train's
 *
 * or without train and test:
 *
 *     set/cat/0001.png            of each class the 10th, 20th, … picture by name is for tests, the others for training
 *
 * Pictures are .png, .ppm and .pgm, all of one size; a grey one beside colour is colour. Names that begin with a dot do
 * not count; any other file is refused. Image i is picture ⌊i/c⌋ of class i mod c as long as all c classes have one, so
 * that the first n images hold every class. All pixels are in memory. */
#ifndef LS_DATA_IMAGES_FOLDER_H
#define LS_DATA_IMAGES_FOLDER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "data/images/images.h"

typedef struct ls_folder_entry {
    char *path;
    int32_t label;
    uint32_t rank; /* among the pictures of its class that are in this part */
} ls_folder_entry;

/* Starts as {0}. */
typedef struct ls_folder_list {
    char **classes;
    size_t class_count;
    ls_folder_entry *entries;
    size_t count, room;
} ls_folder_list;

/* What is there, by name; no picture is opened. What a failure leaves, fini releases. */
ls_status ls_folder_list_read(const char *folder, ls_images_part part, ls_folder_list *out);
void ls_folder_list_fini(ls_folder_list *list);

#endif
