/* save.c: ls_save(): saves a checkpoint while all workers wait; saver.c does the work. */
#include "run/folder/save.h"

#include "base/clock.h"
#include "run/agree.h"
#include "run/folder/saver.h"
#include "run/state_hash.h"

ls_status ls_save(ls_store *store, ls_trainer *t, const ls_identity *identity, const ls_tokenizer *tokenizer) {
    ls_saver *saver = NULL;
    ls_save_outcome saved;
    LS_TRY(ls_trainer_prove_state(t));
    ls_status status = ls_agree(t->world, ls_saver_open(t, store, identity, tokenizer, &saver));
    if (status == LS_OK) status = ls_saver_save(saver, ls_clock_seconds(), -1, &saved);
    ls_saver_close(saver, status != LS_OK);
    return status;
}
