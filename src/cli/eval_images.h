/* eval_images.h: `lockstep eval` of a model of images. */
#ifndef LS_CLI_EVAL_IMAGES_H
#define LS_CLI_EVAL_IMAGES_H

#include "cli/one_worker.h"

ls_status ls_eval_images(const ls_options *options, ls_one_worker *one);

#endif
