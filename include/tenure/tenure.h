/* tenure.h - includes the stable headers; with TENURE_EXPERIMENTAL defined, also the experimental
 * ones.
 */
#ifndef TENURE_TENURE_H
#define TENURE_TENURE_H

#include <tenure/estimate.h>
#include <tenure/fit.h>
#include <tenure/graph.h>
#include <tenure/plan.h>
#include <tenure/pool.h>
#include <tenure/report.h>
#include <tenure/run.h>
#include <tenure/status.h>
#ifdef TENURE_EXPERIMENTAL
#include <tenure/dist.h>
#include <tenure/eager.h>
#include <tenure/embedding.h>
#include <tenure/engine.h>
#include <tenure/foreign.h>
#include <tenure/llm.h>
#include <tenure/objects.h>
#include <tenure/occupancy.h>
#include <tenure/online.h>
#include <tenure/program.h>
#include <tenure/rewrite.h>
#include <tenure/search.h>
#include <tenure/snapshot.h>
#include <tenure/train.h>
#include <tenure/watch.h>
#endif

#endif
