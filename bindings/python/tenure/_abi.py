"""Structs and functions of libtenure, as in its headers (include/tenure/).

Names are those of C, and the headers document them. tests/python/layouts.py compares sizes, offsets, enums and arguments
with the headers by means of a C compiler, so that the two cannot differ.
"""
import ctypes
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int64, c_size_t,
                    c_uint8, c_uint32, c_uint64, c_void_p)
from typing import Any, Dict, List, Tuple, Type

NONE = 0xFFFFFFFF  # TN_NONE
SIZE_UNKNOWN = 0xFFFFFFFFFFFFFFFF  # TN_SIZE_UNKNOWN

# The tables of the headers, by number.
STATUSES = ("OK", "E_INFEASIBLE", "E_CONFLICT", "E_EXHAUSTED", "E_INVALID", "E_UNKNOWN", "E_UNSUPPORTED", "E_IO",
            "E_STOPPED", "E_NO_MEMORY", "E_INTERNAL", "E_OUTSIDE")
VERDICTS = ("feasible", "optimal", "infeasible", "stopped")
CONFLICTS = ("none", "overlap", "alignment", "pin", "capacity", "peak", "overflow", "count", "tie", "order", "bank",
             "apart", "reserved", "cost", "waits", "time")
KINDS = ("activation", "input", "output", "parameter", "constant", "workspace", "gradient", "optimizer_state")
PARTS = ("weights", "gradients", "optimizer_state", "activations", "workspace", "overhead", "runtime")
PHASES = ("load", "forward", "backward", "update", "later_steps", "evaluation", "checkpoint")
DTYPES = ("undefined", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "float64",
          "uint32", "uint64", "complex64", "complex128", "bfloat16")  # the rest have no type in numpy
LOSSES = ("cross-entropy", "mean-squared", "output")
SCHEDULES = ("constant", "linear", "cosine")
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw", "none")
FATES = ("kept", "recomputed", "swapped", "encoded")
OPCODES = ("put", "apply", "get", "free", "drop", "swap_out", "swap_in", "encode", "decode", "send", "recv", "reduce",
           "gather", "scatter", "wait", "fetch")

BODY_PINNED, BODY_TIED = 1, 4  # tn_body.flags
RULES = {"keep": 0, "recompute": 1, "swap": 2}  # TN_RULE_*
ALLOW = {"order": 1, "recompute": 2, "swap": 4, "compress": 8, "lossy": 16, "split": 32, "stream": 64}  # TN_FIT_*
CLAIMS = ("fits", "infeasible", "not_found", "stopped", "not_tried")
TO_RUN, TO_TRAIN, TRAINED = 0, 1, 2  # tn_rewrite_use
INPLACE_NONE = 1
ATTRS = ("int", "float", "string", "ints", "floats", "strings")  # tn_attr_type


class tn_error(Structure):
    _fields_ = [("status", c_int), ("message", c_char * 400), ("where", c_char * 200)]


def opaque(name: str) -> Type[Structure]:
    """An opaque handle."""
    return type(name, (Structure,), {})


tn_problem, tn_graph, tn_program, tn_occupancy = map(opaque, ("tn_problem", "tn_graph", "tn_program", "tn_occupancy"))
tn_costs, tn_setup, tn_kernels, tn_trace = map(opaque, ("tn_costs", "tn_setup", "tn_kernels", "tn_trace"))
tn_pruning, tn_watch = map(opaque, ("tn_pruning", "tn_watch"))
tn_device, tn_eager, tn_eager_optimizer = map(opaque, ("tn_device", "tn_eager", "tn_eager_optimizer"))

RESIZE = CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_size_t, c_size_t, c_size_t)
LOG = CFUNCTYPE(None, c_void_p, c_char_p)
PROGRESS = CFUNCTYPE(c_bool, c_void_p, c_char_p, c_uint64, c_uint64)
FOUND = CFUNCTYPE(None, c_void_p, c_char_p, c_uint64, c_uint64)
WRITE_PLAN = CFUNCTYPE(c_int, c_void_p, POINTER(c_uint64), c_char_p, POINTER(tn_error))


class tn_allocator(Structure):
    _fields_ = [("resize", RESIZE), ("self", c_void_p)]


class tn_context(Structure):
    _fields_ = [("struct_size", c_size_t), ("allocator", tn_allocator), ("self", c_void_p), ("log", LOG),
                ("progress", PROGRESS), ("read_limit", c_uint64), ("found", FOUND), ("follow_links", c_bool)]


# --- plan.h ---

class tn_piece(Structure):
    _fields_ = [("first", c_int64), ("last", c_int64), ("lo", c_uint64), ("hi", c_uint64),
                ("begins", POINTER(c_int64)), ("ends", POINTER(c_int64))]


class tn_body(Structure):
    _fields_ = [("size", c_uint64), ("first", c_int64), ("last", c_int64), ("alignment", c_uint64),
                ("offset", c_uint64), ("flags", c_uint32), ("bank", c_uint32), ("pieces", POINTER(tn_piece)),
                ("piece_count", c_uint32), ("name", c_char_p), ("hint", c_int64), ("has_hint", c_bool),
                ("leader", c_uint32), ("delta", c_uint64), ("traffic", c_uint64), ("spare", c_uint64 * 2)]


class tn_bank(Structure):
    _fields_ = [("name", c_char_p), ("capacity", c_uint64), ("bytes_per_s", c_double)]


class tn_layout(Structure):
    _fields_ = [("offset", POINTER(c_uint64)), ("bank", POINTER(c_uint32)), ("body_count", c_uint32),
                ("bank_count", c_uint32), ("bank_peak", POINTER(c_uint64)), ("bank_lower_bound", POINTER(c_uint64)),
                ("bank_traffic", POINTER(c_uint64)), ("peak", c_uint64), ("lower_bound", c_uint64),
                ("verdict", c_int), ("planner", c_char_p), ("seed", c_uint64), ("work", c_uint64),
                ("seconds", c_double), ("timed_out", c_bool), ("reuse_cost", c_uint64),
                ("reuse_cost_bound", c_uint64), ("objective", c_int), ("workers", c_uint32), ("waits", c_uint64),
                ("waits_bound", c_uint64), ("time", c_uint64), ("time_bound", c_uint64), ("spare", c_uint64 * 8)]


class tn_plan_options(Structure):
    _fields_ = [("struct_size", c_size_t), ("context", POINTER(tn_context)), ("planner", c_char_p),
                ("capacity", c_uint64), ("work_limit", c_uint64), ("timeout_s", c_double), ("threads", c_uint32),
                ("seed", c_uint64), ("enough", c_uint64), ("objective", c_int), ("workers", c_uint32)]


class tn_span(Structure):
    _fields_ = [("body", c_uint32), ("lo", c_uint64), ("hi", c_uint64), ("first", c_uint32),
                ("uses", POINTER(c_uint32)), ("use_count", c_uint32)]


class tn_wait(Structure):
    _fields_ = [("before", c_uint32), ("after", c_uint32)]


class tn_conflict(Structure):
    _fields_ = [("reason", c_int), ("a", c_uint32), ("b", c_uint32), ("step", c_int64), ("lo", c_uint64),
                ("hi", c_uint64), ("spare", c_uint64 * 4)]


# --- graph.h ---

class tn_format(Structure):
    _fields_ = [("order", c_int), ("block", c_uint32)]


class tn_payload(Structure):
    _fields_ = [("offset", c_uint64), ("size", c_uint64)]


class tn_tensor(Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_int), ("kind", c_int), ("format", tn_format), ("flags", c_uint32),
                ("rank", c_uint32), ("shape", POINTER(c_int64)), ("repeat", c_uint64), ("bytes", c_uint64),
                ("producer", c_uint32), ("block", c_uint32), ("value", c_void_p), ("payload", tn_payload)]


class tn_op(Structure):
    _fields_ = [("name", c_char_p), ("type", c_char_p), ("domain", c_char_p), ("version", c_uint32),
                ("block", c_uint32), ("input_count", c_uint32), ("output_count", c_uint32), ("attr_count", c_uint32),
                ("inputs", POINTER(c_uint32)), ("outputs", POINTER(c_uint32)), ("attrs", c_void_p)]


class tn_dim(Structure):
    _fields_ = [("name", c_char_p), ("value", c_int64)]


class tn_input_shape(Structure):
    _fields_ = [("name", c_char_p), ("rank", c_uint32), ("shape", POINTER(c_int64))]


class tn_import_options(Structure):
    _fields_ = [("struct_size", c_size_t), ("context", POINTER(tn_context)), ("dims", POINTER(tn_dim)),
                ("input_shapes", POINTER(tn_input_shape)), ("dim_count", c_uint32), ("input_shape_count", c_uint32),
                ("parameters", POINTER(c_char_p)), ("parameter_count", c_uint32), ("format", tn_format),
                ("variables_outside", c_bool), ("values", c_void_p), ("value_count", c_uint32), ("batch", c_int64),
                ("keep_aten", c_bool)]


# --- program.h, rewrite.h, fit.h, engine.h ---

class tn_program_options(Structure):
    _fields_ = [("struct_size", c_size_t), ("order", c_char_p), ("memory", c_void_p),
                ("sequence", POINTER(c_uint32)), ("sequence_count", c_uint32)]


class tn_static_block(Structure):
    _fields_ = [("tensor", c_uint32), ("op", c_uint32), ("bytes", c_uint64)]


class tn_occupancy_options(Structure):
    _fields_ = [("struct_size", c_size_t), ("alignment", c_uint64), ("inplace", c_int), ("no_views", c_bool),
                ("claimed", POINTER(c_uint64)), ("banks", POINTER(tn_bank)), ("bank_count", c_uint32),
                ("parallel", c_int), ("workspaces", POINTER(c_uint64)), ("fuse_concat", c_bool),
                ("statics", POINTER(tn_static_block)), ("static_count", c_uint32), ("statics_first", c_bool),
                ("workspaces_again", POINTER(c_uint64)), ("adjacent", POINTER(c_char_p)),
                ("adjacent_count", c_uint32)]


class tn_dependency(Structure):
    _fields_ = [("before", c_uint32), ("after", c_uint32)]


class tn_stream_rule(Structure):
    _fields_ = [("pattern", c_char_p), ("stream", c_uint32)]


class tn_program_streams_options(Structure):
    _fields_ = [("struct_size", c_size_t), ("count", c_uint32), ("stream_of", POINTER(c_uint32)),
                ("times", POINTER(c_uint64)), ("rules", POINTER(tn_stream_rule)), ("rule_count", c_uint32),
                ("after", POINTER(tn_dependency)), ("after_count", c_uint64)]


class tn_instruction(Structure):
    _fields_ = [("opcode", c_int), ("stream", c_uint32), ("op", c_uint32), ("tensor", c_uint32), ("other", c_uint32),
                ("wait", c_uint32), ("signal", c_uint32), ("slot", c_uint32), ("peer", c_uint32), ("tag", c_uint32),
                ("part", c_uint32), ("parts", c_uint32), ("group", c_uint32), ("codec", c_int), ("reduction", c_int), ("again", c_bool)]


class tn_rewrite_options(Structure):
    _fields_ = [("struct_size", c_size_t), ("context", POINTER(tn_context)), ("no_fuse", c_bool),
                ("no_formats", c_bool), ("without", c_char_p), ("use", c_int), ("weights_dtype", c_int),
                ("pruning", POINTER(tn_pruning))]


MAKE_COSTS = CFUNCTYPE(c_int, c_void_p, POINTER(tn_setup), POINTER(POINTER(tn_costs)), POINTER(tn_error))


class tn_rule(Structure):
    _fields_ = [("pattern", c_char_p), ("kind", c_int), ("prefetch", c_uint32)]


class tn_rules(Structure):
    _fields_ = [("struct_size", c_size_t), ("list", POINTER(tn_rule)), ("count", c_uint32), ("segments", c_uint32)]


class tn_setup_options(Structure):
    _fields_ = [("struct_size", c_size_t), ("context", POINTER(tn_context)), ("rewrite", POINTER(tn_rewrite_options)),
                ("no_kernels", c_bool), ("kernels", c_void_p), ("given_kernels", POINTER(tn_kernels)),
                ("program", POINTER(tn_program_options)), ("given_program", POINTER(tn_program)),
                ("recompute", c_void_p), ("fastest", c_bool), ("fit", c_void_p), ("costs", POINTER(tn_costs)),
                ("memory", POINTER(tn_occupancy_options)), ("statics", c_int), ("without_reuse", c_bool),
                ("plan", POINTER(tn_plan_options)), ("unplanned", c_bool), ("divide", c_void_p),
                ("split", c_void_p), ("stream", c_void_p), ("streams", POINTER(tn_program_streams_options)),
                ("make_costs", MAKE_COSTS), ("make_costs_self", c_void_p),
                ("rules", POINTER(tn_rules)), ("expert_slots", c_uint32)]


class tn_setup_needs(Structure):
    _fields_ = [("arena", c_uint64), ("statics", c_uint64), ("total", c_uint64)]


# --- train.h, estimate.h ---

class tn_train_options(Structure):
    _fields_ = [("struct_size", c_size_t), ("loss", c_int), ("output", c_uint32), ("optimizer", c_int),
                ("momentum", c_double), ("beta1", c_double), ("beta2", c_double), ("epsilon", c_double),
                ("weight_decay", c_double), ("nesterov", c_bool), ("freeze", POINTER(c_char_p)),
                ("freeze_count", c_uint32), ("train", POINTER(c_char_p)), ("train_count", c_uint32),
                ("micro_batches", c_uint32), ("dtype", c_int), ("loss_scale", c_double),
                ("dynamic_loss_scale", c_bool), ("batch_norm_momentum", c_double), ("seed", c_uint64),
                ("fuse_update", c_bool), ("dropout_bits", c_bool), ("keep_pool_inputs", c_bool),
                ("keep_outputs", c_bool), ("output_gradients", c_bool), ("bucket_bytes", c_uint64),
                ("tensor_ranks", c_uint32), ("tensor_rank", c_uint32),
                ("shard", c_int), ("shard_count", c_uint32), ("shard_index", c_uint32),
                ("sequence_parallel", c_bool), ("pipeline_parts", c_uint32),
                ("loss_parts", c_uint32)]


class tn_trained(Structure):
    _fields_ = [("parameter", c_uint32), ("gradient", c_uint32), ("state", c_uint32 * 2), ("sum", c_uint32),
                ("shard", c_uint32), ("at", c_uint64)]


class tn_sharded(Structure):
    _fields_ = [("bytes", c_uint64), ("part_bytes", c_uint64), ("from", c_uint64), ("parameters", c_uint32),
                ("whole", c_uint32), ("gradient", c_uint32), ("state", c_uint32 * 2), ("sum", c_uint32)]


class tn_training(Structure):
    _fields_ = [("graph", POINTER(tn_graph)), ("labels", c_uint32), ("learning_rate", c_uint32), ("step", c_uint32),
                ("micro", c_uint32), ("loss_scale", c_uint32), ("loss", c_uint32), ("correct", c_uint32),
                ("parameter_count", c_uint32), ("statistic_count", c_uint32), ("parameters", POINTER(tn_trained)),
                ("statistics", POINTER(c_uint32)), ("parts", c_void_p),
                ("sharded_count", c_uint32), ("sharded", POINTER(tn_sharded)), ("stages", c_void_p)]


class tn_estimate_options(Structure):
    _fields_ = [("struct_size", c_size_t), ("context", POINTER(tn_context)), ("alloc", c_int), ("release", c_int),
                ("pool", c_char_p), ("pool_capacity", c_uint64), ("layout", POINTER(tn_layout)),
                ("plan", POINTER(tn_plan_options)), ("statics", POINTER(tn_static_block)), ("static_count", c_uint32),
                ("runtime", c_uint64), ("late_state", c_bool)]


class tn_estimate(Structure):
    _fields_ = [("total", c_uint64), ("part", c_uint64 * 16), ("phase", c_uint64 * 16),
                ("peak_step", c_uint32), ("peak_op", c_uint32), ("peak_run", c_uint32), ("fixed", c_uint64),
                ("arena", c_uint64), ("largest_static", c_uint64), ("requested", c_uint64), ("allocated", c_uint64),
                ("spare", c_uint64 * 4)]


class tn_hardware(Structure):
    _fields_ = [("name", c_char_p), ("title", c_char_p), ("memory", c_uint64), ("usable", c_uint64),
                ("measured", c_bool), ("bytes_per_s", c_double), ("fp32", c_double), ("fp16", c_double),
                ("bf16", c_double), ("year", c_uint32)]


# --- train.h, run.h: training ---

tn_data, tn_trainer, tn_contents = map(opaque, ("tn_data", "tn_trainer", "tn_contents"))
TRAIN_READ = CFUNCTYPE(c_int, c_void_p, POINTER(tn_graph), c_uint32, c_void_p, c_uint64, POINTER(tn_error))


class tn_array(Structure):
    _fields_ = [("dtype", c_int), ("rank", c_uint32), ("shape", c_int64 * 64), ("bytes", c_uint64), ("data", c_void_p),
                ("spare", c_uint64 * 2)]


class tn_named_array(Structure):
    _fields_ = [("name", c_char_p), ("array", tn_array)]


class tn_samples(Structure):
    _fields_ = [("samples", tn_array), ("labels", tn_array), ("inputs", POINTER(tn_named_array)), ("input_count", c_uint32)]


class tn_contents_of(Structure):
    _fields_ = [("read", TRAIN_READ), ("self", c_void_p), ("model", POINTER(tn_graph))]


class tn_prune_schedule(Structure):
    _fields_ = [("share", c_double), ("begin", c_uint64), ("end", c_uint64), ("every", c_uint64),
                ("patterns", POINTER(c_char_p)), ("pattern_count", c_uint32)]


class tn_trainer_state(Structure):
    _fields_ = [("first", c_uint64), ("done", c_uint64), ("total", c_uint64), ("batch", c_uint64), ("parts", c_uint32),
                ("micro_batches", c_uint32), ("labels", c_uint64), ("stopped", c_bool), ("counts", c_bool),
                ("loss", c_double), ("correct", c_int64), ("mean_loss", c_double), ("accuracy", c_double),
                ("seconds", c_double), ("engine_seconds", c_double), ("saved", c_uint64), ("saved_bytes", c_uint64),
                ("save_seconds", c_double), ("prunable", c_uint64), ("pruned", c_uint64)]


STEP = CFUNCTYPE(c_bool, c_void_p, POINTER(tn_trainer_state))


class tn_session_options(Structure):
    _fields_ = [("struct_size", c_size_t), ("context", POINTER(tn_context)), ("read", TRAIN_READ), ("self", c_void_p),
                ("threads", c_uint32), ("plain", c_bool), ("no_rewrite", c_bool), ("fuse", c_bool), ("recompute", c_double),
                ("recompute_cheap", c_bool), ("order", c_char_p), ("planner", c_char_p), ("budget", c_uint64),
                ("pass", c_char_p), ("seed", c_uint64), ("poison", c_bool), ("naive", c_bool), ("statics", c_int),
                ("divide", c_void_p), ("exchange", c_void_p), ("stream", c_bool), ("where", c_void_p),
                ("storage_bytes_per_s", c_double), ("stream_parts", c_bool), ("allow", c_uint32), ("timeout_s", c_double),
                ("make_weights", c_bool), ("rules", POINTER(tn_rules))]


class tn_trainer_options(Structure):
    _fields_ = [("struct_size", c_size_t), ("context", POINTER(tn_context)), ("train", POINTER(tn_train_options)),
                ("session", POINTER(tn_session_options)), ("data", POINTER(tn_data)), ("fill", c_void_p),
                ("test_batches", c_uint64), ("steps", c_uint64), ("epochs", c_uint64), ("rate", c_double),
                ("schedule", c_int), ("warmup", c_uint64), ("prune", POINTER(tn_prune_schedule)), ("seed", c_uint64),
                ("checkpoint", c_char_p), ("checkpoint_every", c_uint64), ("resume", c_char_p), ("go_on", c_bool),
                ("step", STEP), ("ran", c_void_p), ("self", c_void_p), ("twin", c_void_p), ("exchange", c_void_p),
                ("group", c_uint32), ("tensor_group", c_uint32), ("pipeline_group", c_uint32), ("contents", tn_contents_of),
                ("online", c_void_p)]


class tn_trainer_score(Structure):
    _fields_ = [("labels", c_uint64), ("loss", c_double), ("counts", c_bool), ("accuracy", c_double)]


class tn_written(Structure):
    _fields_ = [("tensors", c_uint32), ("quantised", c_uint32), ("real_bytes", c_uint64), ("stored_bytes", c_uint64),
                ("file_bytes", c_uint64)]


class tn_engine_usage(Structure):
    _fields_ = [("planned_peak", c_uint64), ("measured_peak", c_uint64), ("arena", c_uint64), ("static_bytes", c_uint64),
                ("run_count", c_uint64), ("kernel_streams", c_uint32), ("seconds", c_double), ("host_bytes", c_uint64), ("host_peak", c_uint64),
                ("out_bytes", c_uint64), ("in_bytes", c_uint64), ("stall_seconds", c_double), ("raw_count", c_uint64),
                ("spill_count", c_uint64), ("spill_bytes", c_uint64), ("talk_count", c_uint64), ("talk_bytes", c_uint64),
                ("talk_seconds", c_double), ("fetch_bytes", c_uint64), ("fetch_seconds", c_double), ("forms_bytes", c_uint64),
                ("row_uses", c_uint64), ("row_hits", c_uint64), ("row_reads", c_uint64), ("row_bytes", c_uint64),
                ("row_guesses", c_uint64), ("row_right", c_uint64), ("row_withheld", c_uint64),
                ("row_wait_seconds", c_double)]


class tn_block(Structure):
    _fields_ = [("name", c_char_p), ("owner", c_uint32), ("op_count", c_uint32), ("input_count", c_uint32),
                ("output_count", c_uint32), ("ops", POINTER(c_uint32)), ("inputs", POINTER(c_uint32)),
                ("outputs", POINTER(c_uint32)), ("dead", c_bool)]


tn_engine = opaque("tn_engine")

# --- search.h, engine.h, fit.h ---

class tn_costs_model(Structure):
    _fields_ = [("struct_size", c_size_t), ("context", POINTER(tn_context)), ("flops_per_s", c_double),
                ("bytes_per_s", c_double)]


class tn_measure_options(Structure):
    _fields_ = [("struct_size", c_size_t), ("context", POINTER(tn_context)), ("seconds", c_double),
                ("rounds", c_uint32), ("bytes", c_uint64), ("occupancy", POINTER(tn_occupancy)),
                ("only", POINTER(c_bool)), ("setup", POINTER(tn_setup))]


EXPLAIN = CFUNCTYPE(None, c_void_p, c_char_p)


class tn_fit_options(Structure):
    _fields_ = [("struct_size", c_size_t), ("context", POINTER(tn_context)), ("budget", c_uint64),
                ("fixed_bytes", c_uint64), ("host_budget", c_uint64), ("pass", c_char_p), ("allow", c_uint32),
                ("to_host_bytes_per_s", c_double), ("from_host_bytes_per_s", c_double),
                ("memory", POINTER(tn_occupancy_options)), ("plan", POINTER(tn_plan_options)), ("live", c_bool),
                ("any", c_bool), ("seed", c_uint64), ("work_limit", c_uint64), ("timeout_s", c_double),
                ("segments", POINTER(c_char_p)), ("segment_count", c_uint32), ("zeros", POINTER(c_float)),
                ("codecs", c_uint32), ("explain", EXPLAIN), ("explain_self", c_void_p),
                ("rules", POINTER(tn_rules))]


class tn_fit_result(Structure):
    _fields_ = [("program", POINTER(tn_program)), ("occupancy", POINTER(tn_occupancy)), ("layout", tn_layout),
                ("host", POINTER(tn_problem)), ("host_layout", tn_layout), ("pass", c_char_p), ("bytes", c_uint64),
                ("live_bytes", c_uint64), ("plain_bytes", c_uint64), ("time", c_uint64), ("plain_time", c_uint64),
                ("time_bound", c_uint64), ("bytes_bound", c_uint64), ("to_host_bytes", c_uint64),
                ("from_host_bytes", c_uint64), ("stall", c_uint64), ("work", c_uint64), ("seconds", c_double),
                ("rounds", c_uint32), ("stopped", c_bool), ("spare", c_uint64 * 8)]


# --- fit.h ---

class tn_claim(Structure):
    _fields_ = [("techniques", c_uint32), ("kind", c_int), ("bytes", c_uint64), ("time", c_uint64),
                ("bytes_bound", c_uint64), ("why", c_char_p), ("spare", c_uint64 * 2)]


class tn_hint(Structure):
    _fields_ = [("techniques", c_uint32), ("fits", c_bool), ("bytes", c_uint64), ("more_time", c_double),
                ("spare", c_uint64 * 2)]


class tn_fit_request(Structure):
    _fields_ = [("struct_size", c_size_t), ("setup", POINTER(tn_setup_options)), ("search", POINTER(tn_fit_options)),
                ("storage_bytes_per_s", c_double), ("storage_latency_s", c_double), ("timed", c_bool),
                ("no_hints", c_bool), ("arena", c_bool), ("hint_seconds", c_double),
                ("split_share", c_double), ("costs", MAKE_COSTS), ("zeros", c_void_p), ("storage", c_void_p),
                ("self", c_void_p)]


class tn_fit_answer(Structure):
    _fields_ = [("setup", POINTER(tn_setup)), ("whole", POINTER(tn_setup)), ("least", POINTER(tn_setup)),
                ("result", tn_fit_result), ("fixed_bytes", c_uint64), ("costs", POINTER(tn_costs)),
                ("whole_costs", POINTER(tn_costs)), ("techniques", c_uint32), ("allowed", c_uint32),
                ("budget", c_uint64), ("host_budget", c_uint64), ("apart", c_uint64), ("claims", tn_claim * 8), ("hints", tn_hint * 4),
                ("claim_count", c_uint32), ("hint_count", c_uint32), ("costs_seconds", c_double),
                ("detail", c_char * 280), ("ruled", c_bool), ("own", c_void_p), ("spare", c_uint64 * 8)]


# --- report.h ---

class tn_report_fit(Structure):
    _fields_ = [("result", POINTER(tn_fit_result)), ("budget", c_uint64), ("fixed_bytes", c_uint64),
                ("abstract", c_bool), ("points", c_void_p), ("point_count", c_uint32),
                ("predicted", POINTER(tn_trace)), ("measured", POINTER(tn_trace)), ("spare", c_uint64 * 4)]


class tn_report(Structure):
    _fields_ = [("struct_size", c_size_t), ("input", c_char_p), ("problem", POINTER(tn_problem)),
                ("layout", POINTER(tn_layout)), ("occupancy", POINTER(tn_occupancy)), ("stages", c_void_p),
                ("stage_count", c_uint32), ("context", POINTER(tn_context)), ("trace", POINTER(tn_trace)),
                ("arena_total", c_uint64), ("write_plan", WRITE_PLAN), ("write_plan_self", c_void_p),
                ("kernels", c_void_p), ("fit", POINTER(tn_report_fit)), ("columns", c_uint32), ("marks", c_void_p),
                ("static_bytes", c_uint64), ("device_bytes", c_uint64), ("device", c_char_p), ("before", c_void_p),
                ("options", c_void_p), ("option_count", c_uint32), ("command", c_char_p), ("ooms", c_void_p),
                ("oom_count", c_uint32), ("reserved_peak", c_uint64), ("text", c_char_p), ("streams", c_uint64)]


# --- watch.h ---

class tn_watch_options(Structure):
    _fields_ = [("struct_size", c_size_t), ("source", c_char_p), ("rows", c_uint32)]


class tn_watch_label(Structure):
    _fields_ = [("line", c_char_p), ("module", c_char_p), ("category", c_char_p), ("address", c_uint64),
                ("block_size", c_uint64)]


class tn_watch_block(Structure):
    _fields_ = [("size", c_uint64), ("birth", c_uint64), ("row", c_uint32)]


class tn_watch_row(Structure):
    _fields_ = [("line", c_char_p), ("module", c_char_p), ("category", c_char_p), ("block_size", c_uint64),
                ("bytes", c_uint64), ("blocks", c_uint64), ("peak_bytes", c_uint64), ("step_bytes", c_uint64)]


class tn_watch_past(Structure):
    _fields_ = [("step", c_uint64), ("peak", c_uint64), ("growth", c_uint64), ("line", c_char_p),
                ("module", c_char_p), ("category", c_char_p), ("block_size", c_uint64), ("row_growth", c_uint64)]


class tn_watch_table(Structure):
    _fields_ = [("source", c_char_p), ("bytes", c_uint64), ("blocks", c_uint64), ("peak", c_uint64),
                ("step", c_uint64), ("step_peak", c_uint64), ("dropped", c_uint64), ("rows", POINTER(tn_watch_row)),
                ("row_count", c_uint32), ("past", POINTER(tn_watch_past)), ("past_count", c_uint32),
                ("is_exact", c_bool)]


class tn_watch_view(Structure):
    _fields_ = [("pid", c_uint32), ("program", c_char_p), ("has_ended", c_bool), ("tables", POINTER(tn_watch_table)),
                ("table_count", c_uint32)]


# --- engine.h, eager.h ---

class tn_device_options(Structure):
    _fields_ = [("struct_size", c_size_t), ("context", POINTER(tn_context)), ("device", c_char_p), ("capacity", c_uint64),
                ("link_bytes_per_s", c_double)]


class tn_attr(Structure):
    _fields_ = [("name", c_char_p), ("type", c_int), ("count", c_uint32), ("ints", POINTER(c_int64)),
                ("floats", POINTER(c_double)), ("strings", POINTER(c_char_p)), ("tensor", c_uint32),
                ("block", c_uint32)]


class tn_eager_options(Structure):
    _fields_ = [("struct_size", c_size_t), ("context", POINTER(tn_context)), ("budget", c_uint64), ("policy", c_char_p),
                ("device", POINTER(tn_device)), ("threads", c_uint32), ("plain", c_bool), ("poison", c_bool),
                ("no_tape", c_bool), ("record", c_bool), ("model_costs", c_bool), ("all_candidates", c_bool),
                ("seed", c_uint64), ("find_least", c_bool)]


class tn_eager_data(Structure):
    _fields_ = [("dtype", c_int), ("kind", c_int), ("rank", c_uint32), ("shape", POINTER(c_int64)),
                ("data", c_void_p), ("name", c_char_p)]


class tn_eager_call(Structure):
    _fields_ = [("type", c_char_p), ("domain", c_char_p), ("version", c_uint32), ("input_count", c_uint32),
                ("output_count", c_uint32), ("attr_count", c_uint32), ("inputs", POINTER(c_uint64)),
                ("attrs", POINTER(tn_attr)), ("names", POINTER(c_char_p))]


class tn_eager_about(Structure):
    _fields_ = [("dtype", c_int), ("kind", c_int), ("rank", c_uint32), ("shape", POINTER(c_int64)),
                ("bytes", c_uint64), ("resident", c_bool)]


class tn_eager_optimizer_options(Structure):
    _fields_ = [("struct_size", c_size_t), ("optimizer", c_int), ("momentum", c_double), ("beta1", c_double),
                ("beta2", c_double), ("epsilon", c_double), ("weight_decay", c_double), ("nesterov", c_bool)]


class tn_evict_counts(Structure):
    _fields_ = [("plain_cost", c_uint64), ("plain_ops", c_uint64), ("remade_cost", c_uint64), ("remade_ops", c_uint64),
                ("drop_count", c_uint64), ("dropped_bytes", c_uint64), ("swap_count", c_uint64),
                ("swapped_bytes", c_uint64), ("fetch_count", c_uint64), ("fetched_bytes", c_uint64),
                ("swap_cost", c_uint64), ("move_count", c_uint64), ("moved_bytes", c_uint64), ("move_cost", c_uint64),
                ("search_count", c_uint64), ("evaluation_count", c_uint64), ("access_count", c_uint64),
                ("search_s", c_double), ("bytes", c_uint64), ("peak_bytes", c_uint64), ("reach_bytes", c_uint64),
                ("hole_count", c_uint64), ("hole_bytes", c_uint64), ("host_bytes", c_uint64),
                ("host_peak_bytes", c_uint64), ("restart_count", c_uint64), ("spent_count", c_uint64),
                ("spent_bytes", c_uint64)]


class tn_evict_least(Structure):
    _fields_ = [("bytes", c_uint64), ("pinned", c_uint64), ("held", c_uint64), ("working", c_uint64), ("op", c_uint64),
                ("name", c_char_p)]


class tn_eager_counts(Structure):
    _fields_ = [("budget", c_uint64), ("handles", c_uint64), ("history", c_uint64), ("recipes", c_uint64),
                ("evict", tn_evict_counts)]


P = POINTER
E = P(tn_error)
status = c_int
# name: (type of the result, arguments); `status`: a tn_status, which `call` checks.
FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
    "tn_version": (c_char_p, []),
    "tn_status_message": (c_char_p, [c_int]),
    "tn_size_parse": (status, [c_char_p, P(c_uint64), E]),
    "tn_problem_create": (status, [P(tn_context), P(P(tn_problem)), E]),
    "tn_problem_destroy": (None, [P(tn_problem)]),
    "tn_problem_add": (status, [P(tn_problem), P(tn_body), P(c_uint32), E]),
    "tn_problem_set_bank": (status, [P(tn_problem), c_uint32, P(tn_bank), E]),
    "tn_problem_set_alignment": (status, [P(tn_problem), c_uint64, E]),
    "tn_problem_keep_apart": (status, [P(tn_problem), c_uint32, c_uint32, E]),
    "tn_problem_add_exclusion": (status, [P(tn_problem), c_uint32, c_uint32, E]),
    "tn_problem_reserve": (status, [P(tn_problem), c_uint32, c_uint64, c_uint64, E]),
    "tn_problem_add_reuse_cost": (status, [P(tn_problem), c_uint32, c_uint32, c_uint64, E]),
    "tn_problem_add_event": (status, [P(tn_problem), c_uint64, P(c_uint32), E]),
    "tn_problem_add_order": (status, [P(tn_problem), c_uint32, c_uint32, E]),
    "tn_problem_add_wait": (status, [P(tn_problem), c_uint32, c_uint32, E]),
    "tn_problem_add_span": (status, [P(tn_problem), P(tn_span), E]),
    "tn_problem_price_pairs": (status, [P(tn_problem), E]),
    "tn_layout_waits": (status, [P(tn_problem), P(tn_layout), c_uint32, P(P(tn_wait)), P(c_uint64), P(c_uint64), E]),
    "tn_waits_release": (None, [P(tn_wait)]),
    "tn_problem_count": (c_uint32, [P(tn_problem)]),
    "tn_problem_bank_count": (c_uint32, [P(tn_problem)]),
    "tn_problem_body": (P(tn_body), [P(tn_problem), c_uint32]),
    "tn_problem_naive": (c_uint64, [P(tn_problem)]),
    "tn_problem_lower_bound": (status, [P(tn_problem), c_uint32, P(c_uint64), P(c_int64), E]),
    "tn_problem_load": (status, [c_char_p, P(tn_context), P(P(tn_problem)), P(P(c_uint64)), E]),
    "tn_problem_load_memory": (status, [c_char_p, c_char_p, c_size_t, P(tn_context), P(P(tn_problem)),
                                        P(P(c_uint64)), E]),
    "tn_problem_save_csv": (status, [P(tn_problem), P(tn_layout), c_char_p, E]),
    "tn_plan": (status, [P(tn_problem), P(tn_plan_options), P(tn_layout), E]),
    "tn_layout_release": (None, [P(tn_layout)]),
    "tn_layout_from_places": (status, [P(tn_problem), P(c_uint64), P(c_uint32), P(tn_layout), E]),
    "tn_layout_load": (status, [P(tn_problem), c_char_p, P(tn_layout), E]),
    "tn_layout_verify": (status, [P(tn_problem), P(tn_layout), P(tn_conflict), E]),
    "tn_planner_count": (c_uint32, []),
    "tn_planner_name": (c_char_p, [c_uint32]),
    "tn_graph_load": (status, [c_char_p, P(tn_import_options), P(P(tn_graph)), E]),
    "tn_graph_destroy": (None, [P(tn_graph)]),
    "tn_graph_tensor_count": (c_uint32, [P(tn_graph)]),
    "tn_graph_op_count": (c_uint32, [P(tn_graph)]),
    "tn_graph_tensor": (P(tn_tensor), [P(tn_graph), c_uint32]),
    "tn_graph_op": (P(tn_op), [P(tn_graph), c_uint32]),
    "tn_dtype_name": (c_char_p, [c_int]),
    "tn_graph_rewrite": (status, [P(tn_graph), P(tn_rewrite_options), P(P(tn_graph)), E]),
    "tn_train": (status, [P(tn_graph), P(tn_train_options), P(tn_training), E]),
    "tn_train_model": (status, [P(tn_graph), P(tn_train_options), P(P(tn_graph)), E]),
    "tn_training_release": (None, [P(tn_training)]),
    "tn_graph_block": (P(tn_block), [P(tn_graph), c_uint32]),
    "tn_contents_open": (status, [c_char_p, P(tn_context), P(P(tn_contents)), E]),
    "tn_contents_generate": (status, [c_char_p, P(tn_graph), c_uint64, P(tn_context), P(P(tn_contents)), E]),
    "tn_contents_read": (status, [P(tn_contents), P(tn_graph), c_uint32, c_void_p, c_uint64, E]),
    "tn_contents_close": (None, [P(tn_contents)]),
    "tn_data_load": (status, [c_char_p, P(tn_context), P(P(tn_data)), E]),
    "tn_data_create": (status, [P(tn_samples), P(tn_samples), P(tn_context), P(P(tn_data)), E]),
    "tn_data_destroy": (None, [P(tn_data)]),
    "tn_trainer_open": (status, [P(tn_graph), P(tn_trainer_options), P(P(tn_trainer)), E]),
    "tn_trainer_destroy": (None, [P(tn_trainer)]),
    "tn_trainer_run": (status, [P(tn_trainer), E]),
    "tn_trainer_at": (P(tn_trainer_state), [P(tn_trainer)]),
    "tn_trainer_engine": (P(tn_engine), [P(tn_trainer)]),
    "tn_trainer_training": (P(tn_training), [P(tn_trainer)]),
    "tn_trainer_read": (c_bool, [P(tn_trainer), c_char_p, c_void_p, c_uint64]),
    "tn_trainer_tests": (c_bool, [P(tn_trainer)]),
    "tn_trainer_test": (status, [P(tn_trainer), P(tn_trainer_score), E]),
    "tn_engine_measure": (None, [P(tn_engine), P(tn_engine_usage)]),
    "tn_model_write": (status, [c_char_p, P(tn_graph), P(tn_contents_of), c_char_p, P(tn_written), E]),
    "tn_program_create": (status, [P(tn_graph), P(tn_program_options), P(P(tn_program)), E]),
    "tn_program_destroy": (None, [P(tn_program)]),
    "tn_program_count": (c_uint32, [P(tn_program)]),
    "tn_program_graph": (P(tn_graph), [P(tn_program)]),
    "tn_program_instructions": (P(tn_instruction), [P(tn_program)]),
    "tn_program_fates": (None, [P(tn_program), P(c_uint8)]),
    "tn_occupancy_problem": (P(tn_problem), [P(tn_occupancy)]),
    "tn_setup_create": (status, [P(tn_graph), P(tn_setup_options), P(P(tn_setup)), E]),
    "tn_setup_destroy": (None, [P(tn_setup)]),
    "tn_setup_graph": (P(tn_graph), [P(tn_setup)]),
    "tn_setup_kernels": (P(tn_kernels), [P(tn_setup)]),
    "tn_setup_program": (P(tn_program), [P(tn_setup)]),
    "tn_setup_occupancy": (P(tn_occupancy), [P(tn_setup)]),
    "tn_setup_layout": (P(tn_layout), [P(tn_setup)]),
    "tn_setup_statics": (P(tn_static_block), [P(tn_setup), P(c_uint32)]),
    "tn_setup_need": (tn_setup_needs, [P(tn_setup)]),
    "tn_kernels_workspaces": (P(c_uint64), [P(tn_kernels)]),
    "tn_kernels_workspaces_again": (P(c_uint64), [P(tn_kernels)]),
    "tn_estimate_make": (status, [P(tn_occupancy), P(tn_estimate_options), P(tn_estimate), E]),
    "tn_hardware_find": (P(tn_hardware), [c_char_p]),
    "tn_costs_create_model": (status, [P(tn_graph), P(tn_costs_model), P(P(tn_costs)), E]),
    "tn_costs_given": (status, [P(tn_context), P(tn_graph), P(c_uint64), P(c_uint64), c_uint32, c_double,
                                P(P(tn_costs)), E]),
    "tn_costs_measure": (status, [P(tn_kernels), P(tn_measure_options), P(P(tn_costs)), c_void_p, E]),
    "tn_costs_read": (status, [c_char_p, P(tn_context), P(tn_graph), P(P(tn_costs)), E]),
    "tn_costs_destroy": (None, [P(tn_costs)]),
    "tn_fit_problem_load_memory": (status, [c_char_p, c_char_p, c_size_t, P(tn_context), P(P(tn_graph)),
                                            P(P(tn_costs)), E]),
    "tn_fit": (status, [P(tn_program), P(tn_costs), P(tn_fit_options), P(tn_fit_result), E]),
    "tn_fit_least": (status, [P(tn_program), P(tn_costs), P(tn_fit_options), P(tn_fit_result), E]),
    "tn_fit_release": (None, [P(tn_fit_result)]),
    "tn_fit_graph": (status, [P(tn_graph), P(tn_fit_request), P(tn_fit_answer), E]),
    "tn_fit_answer_release": (None, [P(tn_fit_answer)]),
    "tn_setup_splits": (c_void_p, [P(tn_setup)]),
    "tn_report_write": (status, [P(tn_report), c_char_p, E]),
    "tn_report_render": (status, [P(tn_report), c_char_p, P(P(c_char)), P(c_size_t), E]),
    "tn_report_release": (None, [P(c_char)]),
    "tn_watch_create": (status, [P(tn_watch_options), P(P(tn_watch)), E]),
    "tn_watch_destroy": (None, [P(tn_watch)]),
    "tn_watch_alloc": (None, [P(tn_watch), P(tn_watch_label), c_uint64, P(tn_watch_block)]),
    "tn_watch_free": (None, [P(tn_watch), P(tn_watch_block)]),
    "tn_watch_move": (None, [P(tn_watch), P(tn_watch_label), P(tn_watch_block)]),
    "tn_watch_step": (None, [P(tn_watch)]),
    "tn_watch_read": (status, [c_uint32, P(tn_context), P(P(tn_watch_view)), E]),
    "tn_watch_view_release": (None, [P(tn_watch_view)]),
    "tn_device_create": (status, [P(tn_device_options), P(P(tn_device)), E]),
    "tn_device_destroy": (None, [P(tn_device)]),
    "tn_evict_policy_count": (c_uint32, []),
    "tn_evict_policy_name": (c_char_p, [c_uint32]),
    "tn_evict_policy_summary": (c_char_p, [c_uint32]),
    "tn_eager_create": (status, [P(tn_eager_options), P(P(tn_eager)), E]),
    "tn_eager_destroy": (None, [P(tn_eager)]),
    "tn_eager_put": (status, [P(tn_eager), P(tn_eager_data), P(c_uint64), E]),
    "tn_eager_apply": (status, [P(tn_eager), P(tn_eager_call), P(c_uint64), E]),
    "tn_eager_del": (status, [P(tn_eager), c_uint64, E]),
    "tn_eager_get": (status, [P(tn_eager), c_uint64, c_void_p, c_uint64, E]),
    "tn_eager_set": (status, [P(tn_eager), c_uint64, c_void_p, c_uint64, E]),
    "tn_eager_drop": (status, [P(tn_eager), c_uint64, E]),
    "tn_eager_offload": (status, [P(tn_eager), c_uint64, E]),
    "tn_eager_describe": (status, [P(tn_eager), c_uint64, P(tn_eager_about), E]),
    "tn_eager_backward": (status, [P(tn_eager), c_uint64, P(c_uint64), c_uint32, P(c_uint64), E]),
    "tn_eager_tape": (None, [P(tn_eager), c_bool]),
    "tn_eager_forget": (None, [P(tn_eager)]),
    "tn_eager_optimizer_create": (status, [P(tn_eager), P(tn_eager_optimizer_options), P(c_uint64), c_uint32,
                                           P(P(tn_eager_optimizer)), E]),
    "tn_eager_optimizer_destroy": (None, [P(tn_eager_optimizer)]),
    "tn_eager_optimizer_step": (status, [P(tn_eager_optimizer), P(c_uint64), c_double, E]),
    "tn_eager_recorded": (status, [P(tn_eager), P(P(tn_graph)), P(P(tn_program)), E]),
    "tn_eager_log": (status, [P(tn_eager), c_char_p, E]),
    "tn_eager_restart": (status, [P(tn_eager), E]),
    "tn_eager_count": (None, [P(tn_eager), P(tn_eager_counts)]),
    "tn_eager_least": (None, [P(tn_eager), P(tn_evict_least)]),
    "tn_eager_check": (status, [P(tn_eager), E]),
}
