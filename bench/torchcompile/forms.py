"""Models of the table: modules that return their loss, their batches, and the blocks that a checkpoint goes around."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

WORDS, CLASSES, SAMPLES, LENGTH, LAYERS, WIDTH, HEADS = 2048, 10, 4, 128, 4, 256, 4


@dataclass
class Form:
    """A model in its training mode, a batch, and its blocks."""

    module: nn.Module
    batch: dict[str, torch.Tensor]
    blocks: list[nn.Module]


FORMS: dict[str, Callable[[], Form]] = {}


def form(make: Callable[[], Form]) -> Callable[[], Form]:
    """Registers a model under the function's name."""
    FORMS[make.__name__] = make
    return make


class WithLoss(nn.Module):
    """A model and its cross entropy; causal: the label of a word is the one behind it."""

    def __init__(self, model: nn.Module, causal: bool = False) -> None:
        super().__init__()
        self.model, self.causal = model, causal

    def forward(self, labels: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
        """The mean loss of a batch."""
        out = self.model(*inputs.values()) if "x" in inputs else self.model(**inputs)
        logits = getattr(out, "logits", out)
        if self.causal:
            logits, labels = logits[:, :-1], labels[:, 1:]
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def of(family: str, task: str, **config: object) -> nn.Module:
    """A model of transformers without dropout, from its configuration; task: the rest of its class's name."""
    import transformers

    made = getattr(transformers, f"{family}Config")(**config)
    model: nn.Module = getattr(transformers, family + task)(made)
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return model


def text(model: nn.Module, blocks: nn.ModuleList, causal: bool = True, **more: torch.Tensor) -> Form:
    """A language model on drawn words."""
    ids = torch.randint(3, WORDS, (SAMPLES, LENGTH))
    return Form(WithLoss(model, causal).train(), {"input_ids": ids, "labels": ids, **more}, list(blocks))


def images(model: nn.Module, blocks: list[nn.Module], size: int, key: str = "x") -> Form:
    """A classifier on drawn images."""
    batch = {key: torch.randn(SAMPLES, 3, size, size), "labels": torch.randint(0, CLASSES, (SAMPLES,))}
    return Form(WithLoss(model).train(), batch, blocks)


def deep(layers: int) -> None:
    """Gives transformers so many layers."""
    global LAYERS
    LAYERS = layers
    for sizes in (DECODER, GROUPED, ENCODER, PATCHES):
        sizes["num_hidden_layers"] = layers


IDS = {"vocab_size": WORDS, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "use_cache": False}
DECODER = {
    **IDS,
    "hidden_size": WIDTH,
    "intermediate_size": 3 * WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "max_position_embeddings": LENGTH,
}
GROUPED = {**DECODER, "num_key_value_heads": HEADS // 2, "head_dim": WIDTH // HEADS}
ENCODER = {k: v for k, v in DECODER.items() if k != "use_cache"} | {
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
PATCHES = {
    "hidden_size": WIDTH,
    "intermediate_size": 4 * WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "image_size": 128,
    "patch_size": 8,
    "num_labels": CLASSES,
}


@form
def gpt2() -> Form:
    """GPT-2."""
    sizes = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": LENGTH}
    model = of("GPT2", "LMHeadModel", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **IDS, **sizes)
    return text(model, model.transformer.h)


@form
def llama() -> Form:
    """Llama, queries in groups."""
    model = of("Llama", "ForCausalLM", **GROUPED)
    return text(model, model.model.layers)


@form
def qwen3() -> Form:
    """Qwen 3."""
    model = of("Qwen3", "ForCausalLM", **GROUPED)
    return text(model, model.model.layers)


@form
def gemma2() -> Form:
    """Gemma 2."""
    model = of("Gemma2", "ForCausalLM", **GROUPED)
    return text(model, model.model.layers)


@form
def opt() -> Form:
    """OPT."""
    sizes = {k: v for k, v in DECODER.items() if k != "intermediate_size"}
    model = of("OPT", "ForCausalLM", ffn_dim=3 * WIDTH, word_embed_proj_dim=WIDTH, dropout=0.0, **sizes)
    return text(model, model.model.decoder.layers)


@form
def bert() -> Form:
    """BERT, masked words."""
    model = of("Bert", "ForMaskedLM", **ENCODER)
    mask = torch.ones(SAMPLES, LENGTH, dtype=torch.int64)
    return text(model, model.bert.encoder.layer, causal=False, attention_mask=mask)


@form
def deberta() -> Form:
    """DeBERTa v2."""
    model = of("DebertaV2", "ForMaskedLM", **ENCODER)
    return text(model, model.deberta.encoder.layer, causal=False)


@form
def t5() -> Form:
    """T5, an encoder and a decoder."""
    sizes = {"d_model": WIDTH, "d_ff": 3 * WIDTH, "d_kv": WIDTH // HEADS, "num_heads": HEADS, "num_layers": LAYERS // 2}
    model = of("T5", "ForConditionalGeneration", decoder_start_token_id=0, dropout_rate=0.0, **IDS, **sizes)
    made = text(model, [*model.encoder.block, *model.decoder.block], causal=False)
    made.batch["decoder_input_ids"] = torch.randint(3, WORDS, (SAMPLES, LENGTH))
    return made


@form
def vit() -> Form:
    """A vision transformer."""
    model = of("ViT", "ForImageClassification", **PATCHES)
    layers = model.vit.encoder.layer if hasattr(model.vit, "encoder") else model.vit.layers
    return images(model, list(layers), 128, "pixel_values")


@form
def swin() -> Form:
    """Swin, windows of attention."""
    model = of(
        "Swin",
        "ForImageClassification",
        image_size=128,
        patch_size=4,
        embed_dim=48,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
        num_labels=CLASSES,
        drop_path_rate=0.0,
    )
    return images(model, [b for stage in model.swin.encoder.layers for b in stage.blocks], 128, "pixel_values")


@form
def convnext() -> Form:
    """ConvNeXt of timm."""
    import timm

    model = timm.create_model("convnext_atto", num_classes=CLASSES)
    return images(model, [b for stage in model.stages for b in stage.blocks], 96)


@form
def resnet18() -> Form:
    """ResNet-18 of torchvision."""
    import torchvision

    model = torchvision.models.resnet18(num_classes=CLASSES)
    blocks = [b for stage in (model.layer1, model.layer2, model.layer3, model.layer4) for b in stage]
    return images(model, blocks, 96)
