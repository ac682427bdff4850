"""Nets with random weights that are the same in every run: build(NAME) gives a module whose output is its loss,
and the batch as keyword arguments."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

# With dropout where the name says so, and a padding mask in bert, distilbert and electra.
TRANSFORMERS = [
    "gpt2",
    "gpt2_dropout",
    "bert",
    "bert_dropout",
    "distilbert_dropout",
    "electra",
    "llama",
    "opt",
    "t5",
    "vit",
]
CONVOLUTIONAL = ["resnet", "mobilenet", "convnext"]
NAMES = ["mlp", "mlp_dropout", *TRANSFORMERS, *CONVOLUTIONAL]


class Loss(nn.Module):
    """A model of transformers whose only output is its loss."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **batch: torch.Tensor) -> torch.Tensor:
        return self.model(**batch).loss


class Perceptron(nn.Module):
    def __init__(self, layers: int, width: int, dropout: float) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        for i in range(layers):
            parts += [nn.Linear(width if i else 64, width), nn.GELU()] + ([nn.Dropout(dropout)] if dropout else [])
        self.net = nn.Sequential(*parts, nn.Linear(width, 10))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.net(x), y)


def build(
    name: str, layers: int = 4, width: int = 256, batch: int = 4, tokens: int = 128
) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(1)
    kind, _, dropout = name.partition("_")
    p = 0.1 if dropout else 0.0
    if kind == "mlp":
        x, y = torch.randn(batch * 16, 64, generator=g), torch.randint(0, 10, (batch * 16,), generator=g)
        return Perceptron(layers, width, p), {"x": x, "y": y}
    import transformers as t

    if kind in ("vit", "resnet", "mobilenet", "convnext"):
        return _images(t, kind, layers, width, p, batch, g)
    words = torch.randint(0, 256, (batch, tokens), generator=g)
    inputs = {"input_ids": words, "labels": words.clone()}
    common = {"vocab_size": 256, "attn_implementation": "eager"}
    if kind in ("bert", "distilbert", "electra"):
        inputs["attention_mask"] = torch.ones_like(words)
        inputs["attention_mask"][0, tokens // 2 :] = 0
    if kind in ("bert", "electra"):
        config, model = {"bert": (t.BertConfig, t.BertForMaskedLM), "electra": (t.ElectraConfig, t.ElectraForMaskedLM)}[
            kind
        ]
        made = model(
            config(
                num_hidden_layers=layers,
                num_attention_heads=4,
                hidden_size=width,
                embedding_size=width,
                intermediate_size=4 * width,
                max_position_embeddings=256,
                hidden_dropout_prob=p,
                attention_probs_dropout_prob=p,
                **common,
            )
        )
    elif kind == "distilbert":
        made = t.DistilBertForMaskedLM(
            t.DistilBertConfig(
                n_layers=layers,
                n_heads=4,
                dim=width,
                hidden_dim=4 * width,
                max_position_embeddings=256,
                dropout=p,
                attention_dropout=p,
                **common,
            )
        )
    elif kind == "gpt2":
        made = t.GPT2LMHeadModel(
            t.GPT2Config(
                n_layer=layers,
                n_head=4,
                n_embd=width,
                n_positions=256,
                resid_pdrop=p,
                embd_pdrop=p,
                attn_pdrop=p,
                use_cache=False,
                **common,
            )
        )
    elif kind == "llama":
        made = t.LlamaForCausalLM(
            t.LlamaConfig(
                num_hidden_layers=layers,
                num_attention_heads=4,
                num_key_value_heads=2,
                hidden_size=width,
                intermediate_size=width * 5 // 2,
                max_position_embeddings=256,
                use_cache=False,
                **common,
            )
        )
    elif kind == "opt":
        made = t.OPTForCausalLM(
            t.OPTConfig(
                num_hidden_layers=layers,
                num_attention_heads=4,
                hidden_size=width,
                ffn_dim=4 * width,
                word_embed_proj_dim=width,
                max_position_embeddings=256,
                dropout=p,
                attention_dropout=p,
                use_cache=False,
                **common,
            )
        )
        inputs["attention_mask"] = torch.ones_like(words)
    elif kind == "t5":
        made = t.T5ForConditionalGeneration(
            t.T5Config(
                num_layers=layers,
                num_decoder_layers=layers,
                d_model=width,
                d_kv=width // 4,
                d_ff=2 * width,
                num_heads=4,
                vocab_size=256,
                dropout_rate=p,
                use_cache=False,
                decoder_start_token_id=0,
            )
        )
        inputs["labels"] = torch.randint(0, 256, (batch, tokens // 2), generator=g)
    else:
        raise ValueError(f"no net is called {name}; wanted one of {', '.join(NAMES)}")
    return Loss(made), inputs


def _images(t, kind, layers, width, p, batch, g):  # type: ignore[no-untyped-def]
    side = 64
    if kind == "vit":
        side = 32
        made = t.ViTForImageClassification(
            t.ViTConfig(
                num_hidden_layers=layers,
                num_attention_heads=4,
                hidden_size=width,
                intermediate_size=4 * width,
                image_size=side,
                patch_size=4,
                num_labels=10,
                hidden_dropout_prob=p,
                attention_probs_dropout_prob=p,
                attn_implementation="eager",
            )
        )
    elif kind == "resnet":
        made = t.ResNetForImageClassification(
            t.ResNetConfig(
                embedding_size=width // 8,
                hidden_sizes=[width // 8, width // 4, width // 2, width],
                depths=[2, 2, 2, 2],
                layer_type="basic",
                num_labels=10,
            )
        )
    elif kind == "mobilenet":
        made = t.MobileNetV2ForImageClassification(
            t.MobileNetV2Config(image_size=side, depth_multiplier=0.5, num_labels=10, classifier_dropout_prob=0.0)
        )
    else:
        made = t.ConvNextForImageClassification(
            t.ConvNextConfig(
                hidden_sizes=[width // 8, width // 4, width // 2, width],
                depths=[1, 1, 2, 1],
                num_labels=10,
                image_size=side,
            )
        )
    x = torch.randn(batch, 3, side, side, generator=g)
    return Loss(made), {"pixel_values": x, "labels": torch.randint(0, 10, (batch,), generator=g)}
