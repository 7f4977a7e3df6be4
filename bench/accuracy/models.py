"""The models of bench/accuracy: networks of torchvision, and transformers written with torch.nn.

The transformers have the layers, sizes and intermediate tensors of the published models (as the library `transformers`
computes them without fused attention), with random weights and dropout as published. Networks of pictures get pictures
of 86 x 86 (vit_b_16: 224 x 224), transformers get 64 tokens.

`made(name, batch)` returns the module, its inputs, the loss and the targets. Sources of the sizes: the config.json of
each published model.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

SIDE, TOKENS = 86, 64
VISION = """vgg16 vgg19 resnet101 resnet152 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large mnasnet1_0 convnext_tiny
convnext_base regnet_x_400mf regnet_y_400mf vit_b_16""".split()


def gelu_new(x):
    """GPT-2's activation, which is not fused: each operator of it makes a tensor."""
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        variance = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + 1e-6))


def heads_of(x, heads):
    batch, length, width = x.shape
    return x.view(batch, length, heads, width // heads).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


def rotated(x, cosine, sine):
    left, right = x.chunk(2, -1)
    return x * cosine + torch.cat((-right, left), -1) * sine


class Attention(nn.Module):
    """Self attention, or attention to `source`; its options are those of the models below."""

    def __init__(self, width, heads, drop=0.0, causal=True, bias=True, one_matrix=False, scaled=True, inner=None, kv_heads=None,
                 normed=False, rotary=0, window=None):
        super().__init__()
        inner = inner or width
        self.heads, self.kv_heads, self.size = heads, kv_heads or heads, inner // heads
        self.scale = self.size ** -0.5 if scaled else 1.0
        self.drop, self.rotary = nn.Dropout(drop), rotary
        kv = self.size * self.kv_heads
        if one_matrix:
            self.qkv = nn.Linear(width, inner + 2 * kv, bias=bias)
        else:
            self.q, self.k, self.v = nn.Linear(width, inner, bias=bias), nn.Linear(width, kv, bias=bias), nn.Linear(width, kv, bias=bias)
        self.split = [inner, kv, kv] if one_matrix else None
        self.out = nn.Linear(inner, width, bias=bias)
        if normed:
            self.q_norm, self.k_norm = RmsNorm(self.size), RmsNorm(self.size)
        self.normed, self.causal = normed, causal
        if causal:
            seen = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
            if window:
                seen = seen.triu(1 - window)
            self.register_buffer("seen", seen)
        if rotary:
            angles = torch.outer(torch.arange(TOKENS).float(), 10000.0 ** (-torch.arange(0, rotary, 2).float() / rotary))
            angles = torch.cat((angles, angles), -1)
            self.register_buffer("cosine", angles.cos())
            self.register_buffer("sine", angles.sin())

    def turned(self, x):
        if self.rotary == self.size:
            return rotated(x, self.cosine, self.sine)
        return torch.cat((rotated(x[..., :self.rotary], self.cosine, self.sine), x[..., self.rotary:]), -1)

    def forward(self, x, source=None, bias=None):
        source = x if source is None else source
        q, k, v = self.qkv(x).split(self.split, 2) if self.split else (self.q(x), self.k(source), self.v(source))
        q, k, v = heads_of(q, self.heads), heads_of(k, self.kv_heads), heads_of(v, self.kv_heads)
        if self.normed:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.rotary:
            q, k = self.turned(q), self.turned(k)
        if self.kv_heads != self.heads:
            k, v = (y.repeat_interleave(self.heads // self.kv_heads, 1) for y in (k, v))
        scores = torch.matmul(q, k.transpose(-1, -2)) * self.scale
        if bias is not None:
            scores = scores + bias
        if self.causal:
            scores = torch.where(self.seen, scores, torch.full((), torch.finfo(scores.dtype).min, device=scores.device))
        weights = self.drop(F.softmax(scores, -1))
        return self.out(joined(torch.matmul(weights, v)))


class Perceptron(nn.Module):
    def __init__(self, width, inner, activation, drop=0.0, bias=True):
        super().__init__()
        self.wide, self.narrow = nn.Linear(width, inner, bias=bias), nn.Linear(inner, width, bias=bias)
        self.activation, self.drop = activation, nn.Dropout(drop)

    def forward(self, x):
        return self.drop(self.narrow(self.activation(self.wide(x))))


class Gated(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate, self.up, self.down = (nn.Linear(*sizes, bias=False) for sizes in ((width, inner), (width, inner), (inner, width)))

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """Attention and a perceptron; `form`: "pre" or "post" normalisation, or both branches "parallel"."""

    def __init__(self, attention, perceptron, norm, width, drop=0.0, form="pre"):
        super().__init__()
        self.attention, self.perceptron = attention, perceptron
        self.before, self.between, self.drop, self.form = norm(width), norm(width), nn.Dropout(drop), form

    def forward(self, x, bias=None):
        if self.form == "parallel":
            return self.perceptron(self.between(x)) + self.attention(self.before(x)) + x
        if self.form == "post":
            x = self.before(x + self.drop(self.attention(x, bias=bias)))
            return self.between(x + self.perceptron(x))
        x = x + self.drop(self.attention(self.before(x), bias=bias))
        return x + self.perceptron(self.between(x))


class Decoder(nn.Module):
    """A language model: tokens in, logits out."""

    def __init__(self, blocks, width, words, norm, places=None, tied=True, drop=0.0, narrow=None):
        super().__init__()
        self.words = nn.Embedding(words, narrow or width)
        self.places = nn.Embedding(places, width) if places else None
        self.into, self.back = (nn.Linear(narrow, width, bias=False), nn.Linear(width, narrow, bias=False)) if narrow else (None, None)
        self.blocks, self.last, self.drop = nn.ModuleList(blocks), norm(width) if norm else None, nn.Dropout(drop)
        self.head = nn.Linear(narrow or width, words, bias=False)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, tokens):
        x = self.words(tokens)
        if self.into:
            x = self.into(x)
        if self.places:
            x = x + self.places(torch.arange(tokens.shape[1], device=tokens.device).unsqueeze(0))
        x = self.drop(x)
        for block in self.blocks:
            x = block(x)
        x = self.last(x) if self.last else x
        return self.head(self.back(x) if self.back else x)


def gpt2(depth, width=768, heads=12, activation=gelu_new, drop=0.1):
    return Decoder([Block(Attention(width, heads, drop, one_matrix=True), Perceptron(width, 4 * width, activation, drop), nn.LayerNorm, width, drop)
                    for _ in range(depth)], width, 50257, nn.LayerNorm, 1024, drop=drop)


def gpt_neo():
    kinds = [Attention(768, 12, scaled=False, bias=False, window=256 if k % 2 else None) for k in range(12)]
    return Decoder([Block(kind, Perceptron(768, 3072, gelu_new), nn.LayerNorm, 768) for kind in kinds], 768, 50257, nn.LayerNorm, 2048)


def opt(depth, width, heads, form="pre", narrow=None):
    return Decoder([Block(Attention(width, heads), Perceptron(width, 4 * width, F.relu, 0.1), nn.LayerNorm, width, 0.1, form)
                    for _ in range(depth)], width, 50272, nn.LayerNorm if form == "pre" else None, 2050, drop=0.1, narrow=narrow)


def pythia():
    return Decoder([Block(Attention(2048, 8, one_matrix=True, rotary=64), Perceptron(2048, 8192, F.gelu), nn.LayerNorm, 2048, form="parallel")
                    for _ in range(16)], 2048, 50304, nn.LayerNorm, tied=False)


def qwen3():
    return Decoder([Block(Attention(1024, 16, bias=False, inner=2048, kv_heads=8, normed=True, rotary=128), Gated(1024, 3072), RmsNorm, 1024)
                    for _ in range(28)], 1024, 151936, RmsNorm)


class Bert(nn.Module):
    """An encoder that predicts every token, with GELU and post-normalisation."""

    def __init__(self, width=768, heads=12, depth=12, words=30522, attention=Attention):
        super().__init__()
        self.words, self.places, self.kinds = nn.Embedding(words, width), nn.Embedding(512, width), nn.Embedding(2, width)
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(0.1)
        self.blocks = nn.ModuleList(Block(attention(width, heads, 0.1, causal=False), Perceptron(width, 4 * width, F.gelu, 0.1), nn.LayerNorm,
                                          width, 0.1, "post") for _ in range(depth))
        self.change, self.last, self.head = nn.Linear(width, width), nn.LayerNorm(width), nn.Linear(width, words)
        self.head.weight = self.words.weight

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device).unsqueeze(0)
        x = self.drop(self.norm(self.words(tokens) + self.kinds(torch.zeros_like(tokens)) + self.places(places)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.last(F.gelu(self.change(x))))


class Disentangled(nn.Module):
    """DeBERTa's attention: scores of contents, of contents to places, and of places to contents."""

    def __init__(self, width, heads, drop=0.0, causal=False):
        super().__init__()
        self.heads, self.scale = heads, 1 / math.sqrt(width // heads * 3)
        self.qkv, self.out, self.drop = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width), nn.Dropout(drop)
        self.q_bias, self.v_bias = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))
        self.places = nn.Embedding(2 * TOKENS, width)
        self.place_k, self.place_q = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        steps = torch.arange(TOKENS)
        self.register_buffer("apart", steps[:, None] - steps[None, :] + TOKENS)

    def forward(self, x, bias=None):
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = heads_of((q + self.q_bias) * self.scale, self.heads), heads_of(k, self.heads), heads_of(v + self.v_bias, self.heads)
        place_k, place_q = (heads_of(part(self.places.weight).unsqueeze(0), self.heads) for part in (self.place_k, self.place_q))
        apart = self.apart.expand(x.shape[0], self.heads, -1, -1).clamp(0, 2 * TOKENS - 1)
        scores = torch.matmul(q, k.transpose(-1, -2))
        scores = scores + torch.gather(torch.matmul(q, place_k.transpose(-1, -2)), -1, apart)
        to_contents = torch.gather(torch.matmul(k, (place_q * self.scale).transpose(-1, -2)), -1, apart)
        scores = scores + to_contents.transpose(-1, -2)
        return self.out(joined(torch.matmul(self.drop(F.softmax(scores, -1)), v)))


class T5Layer(nn.Module):
    def __init__(self, width, heads, inner, crossed):
        super().__init__()
        kept = dict(bias=False, scaled=False)
        self.own = Attention(width, heads, 0.1, causal=crossed, **kept)
        self.cross = Attention(width, heads, 0.1, causal=False, **kept) if crossed else None
        self.perceptron = Perceptron(width, inner, lambda x: F.dropout(F.relu(x), 0.1), 0.1, bias=False)
        self.norms, self.drop = nn.ModuleList(RmsNorm(width) for _ in range(3 if crossed else 2)), nn.Dropout(0.1)

    def forward(self, x, bias, source=None):
        x = x + self.drop(self.own(self.norms[0](x), bias=bias))
        if self.cross:
            x = x + self.drop(self.cross(self.norms[1](x), source))
        return x + self.perceptron(self.norms[-1](x))


class T5(nn.Module):
    """Encoder and decoder with relative positions."""

    def __init__(self, depth, width, heads, inner, words=32128):
        super().__init__()
        self.words, self.width = nn.Embedding(words, width), width
        self.there, self.here = (nn.ModuleList(T5Layer(width, heads, inner, crossed) for _ in range(depth)) for crossed in (False, True))
        self.there_bias, self.here_bias = nn.Embedding(32, heads), nn.Embedding(32, heads)
        self.there_norm, self.here_norm, self.drop = RmsNorm(width), RmsNorm(width), nn.Dropout(0.1)
        steps = torch.arange(TOKENS)
        self.register_buffer("buckets", (steps[None, :] - steps[:, None]).clamp(-16, 15) + 16)

    def stack(self, x, layers, table, norm, source=None):
        bias = table(self.buckets).permute(2, 0, 1).unsqueeze(0)
        x = self.drop(x)
        for layer in layers:
            x = layer(x, bias, source)
        return self.drop(norm(x))

    def forward(self, tokens, wanted):
        source = self.stack(self.words(tokens), self.there, self.there_bias, self.there_norm)
        x = self.stack(self.words(wanted), self.here, self.here_bias, self.here_norm, source)
        return F.linear(x * self.width ** -0.5, self.words.weight)


TEXT = {  # name: (module, number of words)
    "distilgpt2": (lambda: gpt2(6), 50257),
    "gpt2": (lambda: gpt2(12), 50257),
    "cerebras_gpt_111m": (lambda: gpt2(10, activation=F.gelu, drop=0.0), 50257),
    "gpt_neo_125m": (gpt_neo, 50257),
    "opt_125m": (lambda: opt(12, 768, 12), 50272),
    "opt_350m": (lambda: opt(24, 1024, 16, "post", 512), 50272),
    "bert_base": (Bert, 30522),
    "deberta_base": (lambda: Bert(words=50265, attention=Disentangled), 50265),
    "t5_small": (lambda: T5(6, 512, 8, 2048), 32128),
    "t5_base": (lambda: T5(12, 768, 12, 3072), 32128),
    "qwen3_0_6b": (qwen3, 151936),
    "pythia_1b": (pythia, 50304),
}
NAMES = VISION + list(TEXT)


def next_token(logits, labels):
    """The loss of a causal language model: a token is compared with the logits of the one before it."""
    logits, labels = logits[..., :-1, :].contiguous(), labels[..., 1:].contiguous()
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))


def every_token(logits, labels):
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))


def made(name, batch):
    """The module, its inputs (a tuple), the loss and the targets (a tuple)."""
    if name in VISION:
        import torchvision
        side = 224 if name.startswith("vit") else SIDE
        module = getattr(torchvision.models, name)(weights=None)
        return module, (torch.rand(batch, 3, side, side),), F.cross_entropy, (torch.randint(1000, (batch,)),)
    make, words = TEXT[name]
    text = [torch.randint(words, (batch, TOKENS)) for _ in range(3)]
    if name.startswith("t5"):
        return make(), tuple(text[:2]), every_token, (text[2],)
    if "bert" in name:
        return make(), (text[0],), every_token, (text[1],)
    return make(), (text[0],), next_token, (text[0],)
