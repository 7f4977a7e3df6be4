/* tenure.h - all of the library: from a model to a verified, drawn memory plan. */
#ifndef TENURE_TENURE_H
#define TENURE_TENURE_H

#include <tenure/array.h>
#include <tenure/budget.h>
#include <tenure/checkpoint.h>
#include <tenure/cluster.h>
#include <tenure/costs.h>
#include <tenure/data.h>
#include <tenure/device.h>
#include <tenure/dist.h>
#include <tenure/eager.h>
#include <tenure/embedding.h>
#include <tenure/engine.h>
#include <tenure/estimate.h>
#include <tenure/evict.h>
#include <tenure/exchange.h>
#include <tenure/fit.h>
#include <tenure/graph.h>
#include <tenure/host.h>
#include <tenure/import.h>
#include <tenure/instruction.h>
#include <tenure/kernels.h>
#include <tenure/llm.h>
#include <tenure/measure.h>
#include <tenure/objects.h>
#include <tenure/parts.h>
#include <tenure/plan.h>
#include <tenure/pool.h>
#include <tenure/program.h>
#include <tenure/prune.h>
#include <tenure/report.h>
#include <tenure/rewrite.h>
#include <tenure/session.h>
#include <tenure/setup.h>
#include <tenure/shard.h>
#include <tenure/simulate.h>
#include <tenure/snapshot.h>
#include <tenure/status.h>
#include <tenure/stream.h>
#include <tenure/trace.h>
#include <tenure/train.h>
#include <tenure/trainer.h>
#include <tenure/weights.h>

#endif
