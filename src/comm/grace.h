/* grace.h: how long the workers that this process forks may take to end by themselves once a signal has asked them to
 * (ls_workers_options, pass_signals). Then the process that forked them ends them: a run that was asked to stop has
 * stopped by then, whatever a worker hangs in. */
#ifndef LS_COMM_GRACE_H
#define LS_COMM_GRACE_H

/* Seconds; 0: as long as they need. Set before they are forked. */
extern double ls_workers_grace_s;

#endif
