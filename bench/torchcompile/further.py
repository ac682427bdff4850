"""Further models for predictions beside measurements: see README.md. Layers are few; their kinds are those of users."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

import forms
from forms import DECODER, ENCODER, GROUPED, HEADS, IDS, LENGTH, PATCHES, SAMPLES, WIDTH, WORDS, Form, images, of, text

FURTHER: dict[str, Callable[[], Form]] = {}

LAYERS = 2


def further(make: Callable[[], Form]) -> Callable[[], Form]:
    """Registers a model under the function's name."""
    FURTHER[make.__name__] = make
    return make


def short(sizes: dict[str, object], **more: object) -> dict[str, object]:
    """Sizes of a model with few layers."""
    return sizes | {"num_hidden_layers": LAYERS} | more


def vision(model: nn.Module, size: int = 96) -> Form:
    """A classifier of torchvision or timm."""
    return images(model, [], size)


@further
def mistral() -> Form:
    """Mistral, attention within a window."""
    return text(of("Mistral", "ForCausalLM", **short(GROUPED, sliding_window=LENGTH // 2)), nn.ModuleList())


@further
def phi3() -> Form:
    """Phi 3, queries, keys and values from one product."""
    return text(of("Phi3", "ForCausalLM", **short(GROUPED)), nn.ModuleList())


@further
def gptneox() -> Form:
    """GPT-NeoX, attention beside the perceptron, with dropout."""
    config = short(DECODER, hidden_dropout=0.1, attention_dropout=0.1)
    model = of("GPTNeoX", "ForCausalLM", **config)
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.1
    return text(model, nn.ModuleList())


@further
def bloom() -> Form:
    """BLOOM, biases of attention by distance."""
    return text(of("Bloom", "ForCausalLM", hidden_size=WIDTH, n_layer=LAYERS, n_head=HEADS, **IDS), nn.ModuleList())


@further
def falcon() -> Form:
    """Falcon, one key for all queries."""
    return text(of("Falcon", "ForCausalLM", **short(DECODER, multi_query=True)), nn.ModuleList())


@further
def olmo2() -> Form:
    """OLMo 2, norms behind attention and perceptron."""
    return text(of("Olmo2", "ForCausalLM", **short(GROUPED)), nn.ModuleList())


@further
def mamba() -> Form:
    """Mamba, a scan in place of attention."""
    sizes = {"hidden_size": 64, "num_hidden_layers": LAYERS, "state_size": 8}
    model = of("Mamba", "ForCausalLM", **IDS, **sizes)
    ids = torch.randint(3, WORDS, (SAMPLES, 32))
    return Form(forms.WithLoss(model, causal=True).train(), {"input_ids": ids, "labels": ids}, [])


@further
def distilbert() -> Form:
    """DistilBERT, masked words."""
    sizes = {"dim": WIDTH, "n_layers": LAYERS, "n_heads": HEADS, "hidden_dim": 3 * WIDTH, "vocab_size": WORDS}
    return text(of("DistilBert", "ForMaskedLM", **sizes), nn.ModuleList(), causal=False)


@further
def albert() -> Form:
    """ALBERT, all layers with the weights of one."""
    return text(of("Albert", "ForMaskedLM", embedding_size=64, **short(ENCODER)), nn.ModuleList(), causal=False)


@further
def electra() -> Form:
    """ELECTRA, masked words, a narrow embedding."""
    return text(of("Electra", "ForMaskedLM", embedding_size=64, **short(ENCODER)), nn.ModuleList(), causal=False)


@further
def bart() -> Form:
    """BART, an encoder and a decoder."""
    sizes = {
        f"{half}_{what}": n
        for half in ("encoder", "decoder")
        for what, n in (("layers", LAYERS), ("attention_heads", HEADS), ("ffn_dim", 3 * WIDTH))
    }
    model = of(
        "Bart",
        "ForConditionalGeneration",
        d_model=WIDTH,
        max_position_embeddings=LENGTH,
        dropout=0.0,
        decoder_start_token_id=2,
        **IDS,
        **sizes,
    )
    made = text(model, nn.ModuleList(), causal=False)
    made.batch["decoder_input_ids"] = torch.randint(3, WORDS, (SAMPLES, LENGTH))
    return made


@further
def deit() -> Form:
    """DeiT."""
    return images(of("DeiT", "ForImageClassification", **short(PATCHES)), [], 128, "pixel_values")


@further
def mobilenet() -> Form:
    """MobileNet v3 of torchvision."""
    import torchvision

    return vision(torchvision.models.mobilenet_v3_small(num_classes=forms.CLASSES))


@further
def efficientnet() -> Form:
    """EfficientNet B0 of torchvision, with stochastic depth and dropout."""
    import torchvision

    return vision(torchvision.models.efficientnet_b0(num_classes=forms.CLASSES))


@further
def regnet() -> Form:
    """RegNet of torchvision."""
    import torchvision

    return vision(torchvision.models.regnet_y_400mf(num_classes=forms.CLASSES))


@further
def densenet() -> Form:
    """DenseNet 121 of torchvision."""
    import torchvision

    return vision(torchvision.models.densenet121(num_classes=forms.CLASSES), 64)


@further
def vgg() -> Form:
    """VGG 11 of torchvision, with dropout."""
    import torchvision

    return vision(torchvision.models.vgg11_bn(num_classes=forms.CLASSES), 64)


@further
def mixer() -> Form:
    """An MLP-Mixer of timm."""
    import timm

    return vision(timm.create_model("mixer_s32_224", num_classes=forms.CLASSES, img_size=128), 128)


@further
def coatnet() -> Form:
    """A CoAtNet of timm: convolutions, then attention."""
    import timm

    return vision(timm.create_model("coatnet_pico_rw_224", num_classes=forms.CLASSES, img_size=128), 128)
