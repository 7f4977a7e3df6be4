#!/usr/bin/python3
"""tenure.torch.estimate beside PyTorch's own profiler, on modules it was not written against.

    torch_estimate.py SOURCE LIBRARY [NAME...]

Each module takes two steps of training under the profiler, which tells of every tensor that is allocated, and is
estimated on the device "meta", where it has no weights. They must agree within 5 %. Nothing of a module may be left
changed. Exit status: 0 all of it holds, 1 not, 77 python3-torch is absent.
"""
import gc
import inspect
import os
import pathlib
import random
import sys
import time

source = pathlib.Path(sys.argv[1]).resolve()
os.environ["TENURE_LIBRARY"] = os.path.abspath(sys.argv[2])
# CTest sets it. For bfloat16 PyTorch calls oneDNN if the CPU has AVX-512, and fails if oneDNN may not use it.
os.environ.pop("DNNL_MAX_CPU_ISA", None)
sys.dont_write_bytecode = True
sys.path.insert(0, str(source / "bindings/python"))
try:
    import torch
except ImportError:
    print("SKIP: python3-torch is not installed")
    sys.exit(77)
try:
    from torchvision import models
except ImportError:
    print("SKIP: python3-torchvision is not installed")
    models = None
from torch import nn  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402

import tenure.torch  # noqa: E402
from tenure.torch import _scratch  # noqa: E402
import torch_kinds  # noqa: E402  (beside this file)

LIMIT = 0.05
MARK = 4 * 3 * 5 * 7 * 11 * 13  # bytes of a tensor like no other


class UNet(nn.Module):
    def __init__(self, width=16, depth=3):
        super().__init__()
        wide = [width << k for k in range(depth + 1)]
        self.down = nn.ModuleList(self.two(a, b) for a, b in zip([3] + wide, wide))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(wide, wide[1:]))
        self.join = nn.ModuleList(self.two(2 * a, a) for a in wide[:-1])
        self.head = nn.Conv2d(width, 2, 1)

    @staticmethod
    def two(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(),
                             nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())

    def forward(self, x):
        kept = []
        for block in self.down[:-1]:
            kept.append(block(x))
            x = nn.functional.max_pool2d(kept[-1], 2)
        x = self.down[-1](x)
        for up, join in zip(reversed(self.up), reversed(self.join)):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.head(x)


class Words(nn.Module):
    """Embeddings, a core, and a score for each word."""

    def __init__(self, core, words, width, out):
        super().__init__()
        self.embed, self.core, self.head = nn.Embedding(words, width), core, nn.Linear(out, words)

    def forward(self, text):
        x = self.core(self.embed(text))
        return self.head(x[0] if isinstance(x, tuple) else x).flatten(0, 1)


class Attention(nn.Module):
    """A block of a decoder, written by hand."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm, self.qkv = heads, nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.out, self.mlp = nn.Linear(width, width), nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width),
                                                                    nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm(x)).chunk(3, -1))
        scores = (q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5)
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(x)


class Tied(nn.Module):
    """One matrix as embedding and as head."""

    def __init__(self, words=2000, width=128):
        super().__init__()
        self.embed, self.body, self.head = nn.Embedding(words, width), nn.Linear(width, width), nn.Linear(width, words)
        self.head.weight = self.embed.weight

    def forward(self, text):
        return self.head(torch.tanh(self.body(self.embed(text)))).flatten(0, 1)


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.core = nn.Embedding(500, 96), nn.Transformer(96, 4, 2, 2, 192, batch_first=True)
        self.head = nn.Linear(96, 500)

    def forward(self, source_text, target_text):
        return self.head(self.core(self.embed(source_text), self.embed(target_text))).flatten(0, 1)


class Towers(nn.Module):
    """Who and what, and a score; PReLU's backward pass takes as much again as it gives."""

    def __init__(self):
        super().__init__()
        self.who, self.what = nn.Embedding(3000, 48), nn.Embedding(4000, 48)
        self.core = nn.Sequential(nn.Linear(96, 64), nn.PReLU(), nn.Linear(64, 1))

    def forward(self, who, what):
        return self.core(torch.cat([self.who(who), self.what(what)], 1)).squeeze(1)


class Gate(nn.Module):
    """Numbers, booleans and counts in one sum: operands are copied in the type that is computed in."""

    def __init__(self):
        super().__init__()
        self.inside, self.out = nn.Linear(300, 2000), nn.Linear(2000, 10)

    def forward(self, x):
        x = self.inside(x)
        is_open = x > 0
        return self.out(x * is_open / (1 + is_open.sum(1, keepdim=True)))


class Pools(nn.Module):
    """The most of each row, the sorted ones, the tenth; their gradients are written into zeroes."""

    def __init__(self):
        super().__init__()
        self.inside, self.out = nn.Linear(200, 1000), nn.Linear(1000, 10)

    def forward(self, x):
        x = self.inside(x)
        tenth = x.kthvalue(10, 1, keepdim=True)[0]
        return self.out(x.sort(1)[0] - tenth - x.view(-1, 50, 20).amax(1).repeat(1, 50))


class Mask(nn.Module):
    """A score for each pixel, of patches in columns."""

    def __init__(self):
        super().__init__()
        self.inside, self.out = nn.Conv2d(8, 16, 1), nn.Linear(144, 32)

    def forward(self, x):
        return self.out(nn.functional.unfold(self.inside(x), 3, padding=1).transpose(1, 2))


class Stages(nn.Module):
    """Norms of channels between convolutions, as in ConvNeXt: pictures have channels last there, weights do not."""

    def __init__(self):
        super().__init__()
        self.norm, self.coarser = nn.LayerNorm(96), nn.Conv2d(96, 384, 2, stride=2)

    def forward(self, x):
        return self.coarser(self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)).mean((2, 3))


def conv3d():
    return nn.Sequential(nn.Conv3d(1, 16, 3, padding=1), nn.BatchNorm3d(16), nn.ReLU(), nn.MaxPool3d(2),
                         nn.Conv3d(16, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(),
                         nn.Linear(32, 10))


def conv1d():
    return nn.Sequential(*(layer for k in range(4) for layer in (
        nn.Conv1d(8 if k == 0 else 64, 64, 5, padding=2 << k, dilation=1 << k), nn.ReLU(), nn.Dropout(0.1))),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 10))


def autoencoder():
    return nn.Sequential(nn.Conv2d(3, 32, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(32, 64, 4, 2, 1), nn.InstanceNorm2d(64),
                         nn.LeakyReLU(0.2), nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.GroupNorm(4, 32), nn.ReLU(),
                         nn.Upsample(scale_factor=2), nn.Conv2d(32, 3, 3, padding=1), nn.Sigmoid())


def pictures(batch, size, channels=3):
    return lambda: (torch.randn(batch, channels, size, size),)


def text(batch, length, words):
    return lambda: (torch.randint(words, (batch, length)),)


def classes(count, *shape):
    return lambda: (torch.randint(count, shape),)


entropy, squares = nn.functional.cross_entropy, nn.functional.mse_loss
MODULES = {  # name: module, inputs, loss (None: the sum), targets, optimizer
    "mlp": (lambda: nn.Sequential(nn.Linear(300, 400), nn.LayerNorm(400), nn.GELU(), nn.Dropout(0.2),
                                  nn.Linear(400, 50)), lambda: (torch.randn(512, 300),), entropy,
            classes(50, 512), "adamw"),
    "gru": (lambda: Words(nn.GRU(64, 96, 2, batch_first=True), 300, 64, 96), text(8, 40, 300), entropy,
            classes(300, 320), "adam"),
    "lstm_both_ways": (lambda: Words(nn.LSTM(64, 80, batch_first=True, bidirectional=True), 300, 64, 160),
                       text(8, 40, 300), entropy, classes(300, 320), "rmsprop"),
    "decoder": (lambda: Words(nn.Sequential(*(Attention(128, 4) for _ in range(3))), 800, 128, 128),
                text(4, 96, 800), entropy, classes(800, 384), "adamw"),
    "encoder": (lambda: Words(nn.TransformerEncoder(nn.TransformerEncoderLayer(
        96, 6, 256, dropout=0.1, activation="gelu", batch_first=True, norm_first=True), 3), 400, 96, 96),
        text(6, 80, 400), entropy, classes(400, 480), "sgd"),
    "translator": (Translator, lambda: (torch.randint(500, (6, 30)), torch.randint(500, (6, 24))), entropy,
                   classes(500, 144), "adam"),
    "tied": (Tied, text(8, 32, 2000), entropy, classes(2000, 256), "momentum"),
    "bag": (lambda: nn.Sequential(nn.EmbeddingBag(5000, 64), nn.Linear(64, 20)), text(64, 30, 5000), entropy,
            classes(20, 64), "adagrad"),
    "towers": (Towers, lambda: (torch.randint(3000, (2048,)), torch.randint(4000, (2048,))),
               nn.functional.binary_cross_entropy_with_logits, lambda: (torch.rand(2048),), "momentum"),
    "gate": (Gate, lambda: (torch.randn(256, 300),), entropy, classes(10, 256), "momentum"),
    "pools": (Pools, lambda: (torch.randn(256, 200),), entropy, classes(10, 256), "sgd"),
    "mask": (Mask, pictures(4, 40, 8), nn.functional.binary_cross_entropy_with_logits,
             lambda: (torch.rand(4, 1600, 32),), "adam"),
    "unet": (UNet, pictures(4, 96), entropy, classes(2, 4, 96, 96), "adam"),
    "conv3d": (conv3d, lambda: (torch.randn(4, 1, 24, 24, 24),), entropy, classes(10, 4), "momentum"),
    "conv1d": (conv1d, lambda: (torch.randn(16, 8, 500),), entropy, classes(10, 16), "adam"),
    "deep": (lambda: nn.Sequential(*(nn.Conv2d(256, 256, 3, padding=1) for _ in range(3)), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
             pictures(4, 6, 256), entropy, classes(256, 4), "sgd"),
    "stages": (Stages, pictures(2, 16, 96), entropy, classes(384, 2), "sgd"),
    "autoencoder": (autoencoder, pictures(8, 64), squares, lambda: (torch.randn(8, 3, 64, 64),), "adam"),
}
MODULES.update(torch_kinds.MODULES)
VISION = {"resnet50": (4, 96, "momentum"), "shufflenet_v2_x0_5": (8, 128, "adam"), "squeezenet1_1": (8, 128, "momentum"),
          "efficientnet_b0": (4, 96, "adam"), "convnext_tiny": (2, 96, "adamw"), "vit_b_32": (2, 224, "adamw"),
          "regnet_x_400mf": (8, 96, "momentum"), "mnasnet0_5": (8, 128, "sgd"), "alexnet": (16, 128, "adam"),
          "mobilenet_v3_small": (8, 128, "rmsprop"), "googlenet": (4, 128, "momentum")}
if models is not None:
    for name, (batch, size, optimizer) in VISION.items():
        extra = {"init_weights": False, "aux_logits": False} if name == "googlenet" else {}
        MODULES[name] = (lambda name=name, extra=extra: getattr(models, name)(**extra), pictures(batch, size), entropy,
                         classes(1000, batch), optimizer)


def measured(make, inputs, loss, targets, optimizer):
    """The peak that PyTorch's profiler tells of two steps, with the module and its inputs."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        module, given, wanted = make(), inputs(), targets()
        gc.collect()
        torch.empty(MARK // 4)
        update = tenure.torch.OPTIMIZERS[optimizer](list(module.parameters()))
        for _ in range(2):
            update.zero_grad(set_to_none=True)
            error = loss(module(*given), *wanted)
            error.backward()
            del error
            update.step()
    return most_of(profiler)


def most_of(profiler):
    """Bytes at most after the mark, with what is there before."""
    sizes = [event.nbytes() for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    before = sizes.index(MARK)
    held = peak = sum(sizes[:before])
    for size in sizes[before + 2:]:
        held += size
        peak = max(peak, held)
    return peak


class Either(nn.Module):
    """A path that depends on numbers."""

    def __init__(self):
        super().__init__()
        self.inside = nn.Linear(8, 8)

    def forward(self, x):
        x = self.inside(x)
        return x.sin() if x.sum() > 0 else x


def check_refusals():
    for module, loss in ((5, None), (None, None), ("resnet", None), (nn.Linear(8, 8), "mse")):
        for ask in (tenure.torch.estimate, lambda *words, **more: tenure.torch.fit(*words, 0.5, **more)):
            try:
                ask(module, torch.randn(4, 8), loss=loss)
            except TypeError as error:
                assert str(error).startswith("module: " if loss is None else "loss: "), error
                continue
            raise AssertionError("%r was taken" % (module,))


def check_default():
    """A question without an optimizer is the same as for a model file: --optimizer adam."""
    assert inspect.signature(tenure.estimate).parameters["optimizer"].default == "adam"
    module, x = nn.Linear(40, 50), torch.randn(4, 40)
    asked = [tenure.torch.estimate(module, x, **more).total for more in ({}, {"optimizer": "adam"}, {"optimizer": "sgd"})]
    assert asked[0] == asked[1] > asked[2], asked


def check_numbers():
    for module in (Either(), Either().to("meta")):
        try:
            found = tenure.torch.estimate(module, torch.randn(4, 8))
        except RuntimeError as error:
            assert "depends on numbers" in str(error), error
            continue
        raise AssertionError("%s without numbers" % found)


def inferred(make, inputs):
    """The peak that the profiler tells of a forward pass without gradients, with the module and its inputs."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        module, given = make().eval(), inputs()
        gc.collect()
        torch.empty(MARK // 4)
        with torch.no_grad():
            module(*given)
    return most_of(profiler)


def check_inference():
    """Without gradients biases are added in place."""
    for name in ("gru", "mask", "axial", "additive"):
        make, inputs = MODULES[name][:2]
        told = inferred(make, inputs)
        found = tenure.torch.estimate(make().eval().to("meta"), inputs(), train=False).total
        assert abs(found / told - 1) < 0.001, (name, found, told)


def check_limits():
    """An estimate that is used as a limit must not be a byte below the peak, nor a kilobyte above it: numbers of the
    program become tensors, and autograd saves them; a part that runs again keeps the state of the random numbers. With
    channels last and in bfloat16, oneDNN's buffers are only bounded ("stages", "half")."""
    for name in ["decoder", "stages", "deep", "mlp", "codebook", "checkpointed", "half"]:
        if name not in MODULES:  # oneDNN has no bfloat16 on this processor
            continue
        make, inputs, loss, targets, optimizer = MODULES[name]
        told = measured(make, inputs, loss, targets, optimizer)
        found = tenure.torch.estimate(make().to("meta"), inputs(), loss=loss, targets=targets(), optimizer=optimizer).total
        assert told <= found <= told + 1024 + {"stages": 8320, "half": told // 50}.get(name, 0), (name, told, found)


# (batch, channels in, channels out, groups, kernel, stride, padding, side, tensors with channels last)
CONVOLUTIONS = [
    (2, 3, 16, 1, 3, 1, 1, 14, ""), (2, 32, 64, 1, 3, 1, 1, 10, ""), (4, 64, 128, 1, 3, 2, 1, 10, ""),  # the usual ones
    (2, 32, 64, 1, 3, 1, 1, 10, "x"), (2, 32, 64, 1, 3, 1, 1, 10, "w"), (2, 32, 64, 1, 3, 1, 1, 10, "g"),
    (2, 32, 64, 1, 3, 1, 1, 10, "xwg"), (4, 64, 64, 64, 7, 1, 3, 2, "xg"), (4, 64, 64, 64, 7, 1, 3, 2, ""),
    (2, 128, 128, 128, 3, 2, 1, 1, "x"), (1, 64, 64, 64, 7, 1, 3, 5, "w"), (2, 8, 8, 8, 5, 2, 2, 2, ""),  # by depth
    (2, 8, 32, 2, 1, 1, 0, 3, "x"), (2, 8, 8, 8, 1, 1, 0, 3, ""), (2, 24, 256, 2, 3, 2, 1, 2, ""),  # groups
    (1, 64, 64, 64, 1, 2, 0, 3, ""), (4, 16, 64, 1, 1, 1, 0, 2, "g"), (8, 64, 256, 1, 1, 1, 0, 2, "x"),  # 1 x 1
    (16, 64, 64, 1, 1, 1, 0, 5, ""), (4, 64, 64, 1, 1, 2, 0, 10, "x"), (2, 64, 128, 1, 1, 2, 0, 10, ""),
    (8, 3, 256, 1, 2, 2, 1, 3, ""), (2, 12, 64, 1, 7, 1, 3, 1, ""), (2, 8, 64, 1, 7, 7, 0, 14, ""),  # few channels
    (4, 8, 64, 1, 7, 2, 3, 32, "g"), (1, 16, 16, 1, 3, 1, 1, 14, ""), (2, 24, 10, 1, 3, 1, 1, 8, ""),
    (3, 48, 24, 1, 1, 1, 0, 32, ""), (2, 64, 24, 1, 3, 1, 1, 56, ""), (2, 48, 256, 1, 3, 1, 1, 28, ""),  # bfloat16's sums
    (2, 96, 128, 4, 3, 2, 1, 2, ""), (2, 32, 32, 32, 7, 7, 3, 3, ""), (2, 64, 64, 64, 5, 5, 2, 2, "x"),
]


def scratch_measured(function):
    """The bytes that a function needs in addition to its results, as the profiler reports them; and its results."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        results = function()
    held = most = 0
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    made = sum(tensor.numel() * tensor.element_size() for tensor in (results if isinstance(results, tuple) else (results,))
               if tensor is not None)
    return most - made, results


def check_convolutions():
    """The scratch memory of convolutions is never below what the profiler reports, for all kinds that we know; with
    contiguous tensors and whole blocks of channels it is exact."""
    for batch, into, out, groups, kernel, stride, padding, side, last in CONVOLUTIONS:
        for type_of in (torch.float32, torch.float64, *([torch.bfloat16] if "half" in MODULES else [])):
            def lies(tensor, name):
                kept = torch.channels_last if name in last else torch.contiguous_format
                return tensor.to(type_of).contiguous(memory_format=kept)
            x = lies(torch.randn(batch, into, side, side), "x")
            weight, bias = lies(torch.randn(out, into // groups, kernel, kernel), "w"), torch.randn(out, dtype=type_of)
            how = [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups
            told, y = scratch_measured(lambda: torch.ops.aten.convolution(x, weight, bias, *how))
            known = [("forward", told, _scratch.scratch_of("aten::convolution", (x, weight, bias, *how), y))]
            grad = lies(torch.randn(y.shape), "g")
            for wanted in ([True] * 3, [True, False, False], [False, True, False], [False, False, True]):
                given = grad, x, weight, [out], *how, wanted
                told, results = scratch_measured(lambda: torch.ops.aten.convolution_backward(*given))
                known.append((wanted, told, _scratch.scratch_of("aten::convolution_backward", given, results)))
            usual = not last and groups == 1 and kernel == 3 and into % 16 == out % 16 == 0 and type_of == torch.float32
            for step, told, found in known:
                case = batch, into, out, groups, kernel, stride, padding, side, last, type_of, step, told, found
                assert told <= found, case
                assert not usual or batch == 1 or step not in ("forward", [True] * 3) or told == found, case


def main():
    torch.set_num_threads(1)
    check_convolutions()
    check_limits()
    check_default()
    check_numbers()
    check_refusals()
    check_inference()
    worst, bad = 0.0, 0
    for name in sys.argv[3:] or MODULES:
        make, inputs, loss, targets, optimizer = MODULES[name]
        torch.manual_seed(16)
        module = make()
        if name != "tied":  # .to() would part what is one
            module = module.to("meta")
        before = [(key, id(value)) for key, value in module.state_dict(keep_vars=True).items()]
        start = time.perf_counter()
        found = tenure.torch.estimate(module, inputs(), loss=loss, targets=targets(), optimizer=optimizer)
        seconds = time.perf_counter() - start
        assert before == [(key, id(value)) for key, value in module.state_dict(keep_vars=True).items()], name
        assert all(parameter.grad is None for parameter in module.parameters()), name
        assert sum(found.parts.values()) == found.total, name
        told = measured(make, inputs, loss, targets, optimizer)
        apart = found.total / told - 1
        worst, bad = max(worst, abs(apart)), bad + (abs(apart) > LIMIT)
        print("%-20s %-9s %12d estimated, %12d profiled, %+6.2f %%, %5.2f s%s"
              % (name, optimizer, found.total, told, 100 * apart, seconds, "" if abs(apart) <= LIMIT else ": FAILED"),
              flush=True)
    print("%d modules, at most %.2f %% apart" % (len(sys.argv[3:] or MODULES), 100 * worst))
    sys.exit(1 if bad else 0)


random.seed(16)
main()
