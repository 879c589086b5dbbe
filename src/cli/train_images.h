/* train_images.h: the data of a model of images. */
#ifndef LS_CLI_TRAIN_IMAGES_H
#define LS_CLI_TRAIN_IMAGES_H

#include "cli/train_session.h"

/* Opens --data and --val-data, which default to drawings and to the test part of the data, and makes the identity. */
ls_status ls_train_session_images(ls_train_session *session);

#endif
