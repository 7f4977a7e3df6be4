/* combine_rules.c - the table of options that go together. */
#include "cli/combine.h"

#include <stddef.h>

#include "cli/estimate_cluster.h"
#include "cli/train_options.h"

const struct cli_rule_set cli_rule_sets[] = {{"training", &cli_training_argp},
                                             {"input", &cli_input_argp},
                                             {"reading", &cli_input_estimate_argp},
                                             {"cluster", &cli_cluster_argp},
                                             {NULL, NULL}};

#define NO_STANDARD_KERNELS "--kernels=onednn|plain|cmsis-nn|any "
#define OTHER_POLICIES "--alloc-policy=start --release-policy=exit --pool "
#define CHOICES "--planner --threads!=1 --no-rewrite --fastest "

/* RULE(commands or NULL, options, relation, others, and .when, .why, .advice as needed) */
#define RULE(commands_, options_, relation_, ...)                                                  \
    {                                                                                              \
        .commands = commands_, .options = options_, .relation = CLI_##relation_,                   \
        .others = __VA_ARGS__                                                                      \
    }

/* clang-format off */
const cli_rule cli_rules[] = {
    /* the input */
    RULE("plan verify diff",
         "@input/alignment/bank/module --batch --train --split --explain=tags", NEEDS, "[model]",
         .why = "the input is a problem", .advice = "remove the option, or pass a model"),
    RULE("plan verify diff report", "--module", NEEDS, "[foreign]",
         .advice = "remove the option, or pass an XLA dump or a .pte program"),
    RULE("report", "--device --bars", EXCLUDES, "[foreign]", .why = "it is for snapshots"),
    RULE("plan", "--batch", NEEDS, "[onnx]", .advice = "use --input-shape for other formats"),
    RULE("split", "--plan", NEEDS, "[tflite]", .why = "only such a file can contain a plan"),
    RULE("split", "--head", NEEDS, "[tflite]", .why = "only its arena has a head"),
    RULE("split", "--dim --input-shape", NEEDS, "[onnx]", .why = "a .tflite model has fixed sizes"),

    /* training */
    RULE("plan verify", "@training", NEEDS, "--train"),
    RULE("fit", "@training/recompute-work/recompute-cheap", NEEDS, "--train"),
    RULE("estimate", "@training", NEEDS, "--train --as [formulas]", .advice = "add --train"),
    RULE(NULL, "--momentum", NEEDS, "--optimizer=momentum"),

    /* the forms of a plan */
    RULE("plan", "--explain", EXCLUDES, "--json --form=objects",
         .why = "it prints text about offsets"),
    RULE("plan", "--split --holders --train", EXCLUDES, "--form=objects"),
    RULE("plan", "--split", EXCLUDES, "--train", .why = "it supports inference only"),
    RULE("plan", "--kernels=onednn|plain", EXCLUDES, "[micro-output]",
         .why = "that plan is for the graph alone"),
    RULE("plan", "--train", EXCLUDES, "[micro-output]", .why = "that plan is for inference"),
    RULE("plan", "--form=objects", EXCLUDES, "[micro-output]",
         .why = "shared objects have no offsets"),
    RULE("arena", "--max", EXCLUDES, "--bank",
         .advice = "give each bank a capacity, --bank NAME=SIZE"),
    RULE("arena", "--output", EXCLUDES, "--plan=inside|none", .why = "it writes our plan"),

    RULE("plan", "--budget", EXCLUDES, "--capacity --bank --form=objects",
         .why = "each is a limit of its own"),

    RULE("plan", "--objective=pairs", EXCLUDES, "[model] --form=objects --explain",
         .why = "only problems have reuse costs of pairs"),
    RULE("plan", "--objective=waits|time", EXCLUDES, "--form=objects --explain --budget --split",
         .why = "it minimises the waits of one plan within --capacity"),
    RULE("plan", "--objective=pairs|waits|time", EXCLUDES, "--split"),

    /* tiles */
    RULE(NULL, "--extra-work", NEEDS, "--split"),
    RULE("plan", "--sweep", NEEDS, "--split --objective=pairs|waits|time"),
    RULE("plan", "--sweep", EXCLUDES, "--explain --holders --device",
         .why = "it prints a curve"),

    /* techniques for a budget */
    RULE("run train", "--allow --swap-device --host-budget --costs --timeout", NEEDS, "--budget"),
    RULE("estimate", "--allow --link", NEEDS, "--budget"),
    RULE(NULL, "--swap-device", NEEDS, "--allow=swap !--allow"),
    RULE(NULL, "--allow=swap", NEEDS, "--link --swap-device",
         .why = "the search uses the speed of copies to the host"),
    RULE("run train fit", "--host-budget", NEEDS, "[swaps]"),
    RULE("fit", "--swap", NEEDS, "--link --swap-device",
         .why = "the search uses the speed of copies to the host"),
    RULE(NULL, "--storage --storage-cache --forms", NEEDS, "--allow=stream"),
    RULE("run", "--allow=stream", EXCLUDES, "--pool", .why = "streaming needs a plan"),
    RULE("fit", "--allow=stream", NEEDS, "--storage",
         .why = "the search uses the read speed of weight files"),
    RULE("fit", "--allow=stream", EXCLUDES, "--sweep --max-batch --run --train --problem --output",
         .why = "it answers one budget only", .advice = "remove one of them, or use `tenure run`"),
    RULE("fit", "--codecs", NEEDS, "--allow=compress --lossy"),
    RULE("fit", "--codecs=float16|float10|float8", NEEDS, "--lossy",
         .why = "these codecs change results"),
    RULE("fit", "--max-error", NEEDS, "--lossy", .why = "other codecs lose nothing"),
    RULE("fit", "--max-error", NEEDS, "--run"),
    RULE("run train", "--max-error", NEEDS, "--codecs=float16|float10|float8",
         .why = "other codecs lose nothing"),
    RULE("fit", "--sweep", EXCLUDES, "--max-batch"),

    /* `fit`: a problem, costs and runs */
    RULE("fit", "--problem", EXCLUDES, "[model-argument] --train --batch --max-batch --kernels",
         .why = "it replaces the model"),
    RULE("fit", "--problem", EXCLUDES, "--costs --save-costs",
         .why = "the file has its own costs"),
    RULE("fit", "--run", NEEDS, "--budget"),
    RULE("fit", "--run", NEEDS, "[kernels]"),
    RULE("fit", "--save-costs", EXCLUDES, "--costs=model", .why = "that measures no costs"),

    /* `run` and `train` */
    RULE("run train", "--trace", EXCLUDES, "--poison", .advice = "run the command once with each"),
    RULE("train", "--output", EXCLUDES, "--poison", .advice = "run the command once with each"),

    /* ranks */
    RULE("train estimate", "[interleaved]", NEEDS, "[stages]", .advice = "add pipeline=N"),
    RULE("train estimate", "--schedule --whole-sends", NEEDS, "[stages]"),
    RULE("train estimate", "--whole-sends", NEEDS, "[tensor-ranks]"),
    RULE("train estimate", "--gather-ahead", NEEDS, "--shard=parameters"),
    RULE("train estimate", "--shard=parameters", EXCLUDES, "--budget", .when = "![stages]",
         .why = "without pipeline stages",
         .advice = "use --shard gradients, or add --parallel pipeline=N"),
    RULE("train", "--ranks-as-threads", NEEDS, "[single-process]",
         .why = "mpirun has started several", .advice = "use one of the two"),
    RULE("train", "--shard!=none", NEEDS, "[data-ranks]"),
    RULE("train", "--sequence-parallel", NEEDS, "[tensor-ranks]"),

    /* `estimate` of a language model to run, */
    RULE("estimate",
         "--shard!=none --recompute!=none --micro-batch --sequence-parallel --attention "
         "--loss-chunk --parallel=auto @cluster",
         NEEDS, "--train --as", .when = "[to-run]", .advice = "add --train"),
    RULE("estimate", "[runtime-name]", NEEDS, "[to-run]", .advice = "give bytes here"),
    RULE("estimate",
         "--weight-type --cache-type --prefill --full-cache --host-layers --host-experts",
         NEEDS, "[to-run]"),
    RULE("estimate", "--train --as", EXCLUDES, "[weights-file]",
         .why = "it does not describe the network",
         .advice = "pass its config.json, or the network as .onnx"),
    RULE("estimate",
         "--parallel=serial|safe " NO_STANDARD_KERNELS OTHER_POLICIES CHOICES "@reading",
         IDLE_WITH, "[to-run]", .advice = "remove it, or pass a model file such as .onnx"),

    /* by formulas, */
    RULE("estimate",
         "@training/optimizer/dtype --as --runtime!=0 --max-batch --parallel=serial|safe "
         NO_STANDARD_KERNELS OTHER_POLICIES CHOICES
         "--alignment --bank --order --bucket --gather-ahead --keep --swap --segments",
         IDLE_WITH, "[formulas]",
         .advice = "remove it, or estimate a model file without these options"),
    RULE("estimate", "@reading/alignment/order/bank/keep/swap/segments", IDLE_WITH, "[config]"),
    RULE("estimate", "--devices", NEEDS, "--parallel=auto --sweep", .when = "[formulas]",
         .why = "otherwise --parallel gives the number of devices"),
    RULE("estimate", "[divided] --micro-batch", EXCLUDES, "[searches]", .when = "[formulas]",
         .why = "that chooses ranks and micro-batches"),
    RULE("estimate", "--parallel=auto", NEEDS, "--devices --sweep", .when = "[formulas]",
         .advice = "add --devices N"),
    RULE("estimate", "--parallel=auto --sweep", NEEDS, "[device-speed]", .when = "[formulas]"),

    /* and of a graph */
    RULE("estimate", "--sequence --micro-batch --attention --loss-chunk @cluster",
         NEEDS, "[formulas]", .when = "![to-run]"),
    RULE("estimate", "--sequence-parallel", NEEDS, "[formulas] [tensor-ranks]",
         .when = "![to-run]", .advice = "add --parallel tensor=N"),
    RULE("estimate", "--bucket", NEEDS, "[data-ranks]"),
    RULE("estimate", "--output", NEEDS, "[planned]"),
    RULE("estimate", "--budget", NEEDS, "[onnx-plan]"),
    RULE("estimate", "--max-batch", NEEDS, "--device"),
    RULE("estimate", "--as", EXCLUDES,
         "@training/optimizer --kernels=onednn|plain --fuse-concat --keep --swap --segments",
         .why = "it estimates eager PyTorch"),

    /* recorded runs, pools and embedding tables */
    RULE("simulate", "--sweep", EXCLUDES, "--budget", .why = "it sets the budgets"),
    RULE("replay", "--pages", EXCLUDES, "--device",
         .why = "a pool on a device uses one block of fixed size"),
    RULE("embed", "[create]", NEEDS, "--rows"),
    RULE("embed", "[replay]", NEEDS, "--cache"),
    RULE("embed", "--zipf", NEEDS, "--rows --table", .when = "[replay]",
         .advice = "add --rows N or --table FILE"),
    RULE("embed", "--reader", NEEDS, "--table", .when = "[replay]"),
    {0}};
/* clang-format on */
