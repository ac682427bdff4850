"""Small forms of families of transformers, made from configurations with fresh weights."""

import torch
from torch import nn

from model import BATCH, CLASSES, MODELS, SEQUENCE, WORDS, Model, classes, model, words


class Keywords(nn.Module):
    """A model of transformers whose inputs are keywords, with its own loss."""

    def __init__(self, module, names, output="logits"):
        super().__init__()
        self.module, self.names, self.output = module, names, output

    def forward(self, *inputs):
        out = self.module(**dict(zip(self.names, inputs, strict=True)))
        return out.loss, getattr(out, self.output)


def wrap(module, inputs, axes=None, batch=BATCH, output="logits") -> Model:
    """A model whose inputs have symbolic batches, and lengths where they are words."""
    names = inputs(1)
    if axes is None:
        axes = {}
        for name, x in names.items():
            axes[name] = {0: "batch"}
            if x.dim() == 2 and not x.is_floating_point():
                axes[name][1] = "length"
    return Model(Keywords(module, list(names), output), inputs, axes, batch)


def mask(n):
    """The last three words of each second sample are padding."""
    ones = torch.ones(n, SEQUENCE, dtype=torch.int64)
    ones[1::2, -3:] = 0
    return ones


def text(n, masked=True, labels=words):
    inputs = {"input_ids": words(n)}
    if masked:
        inputs["attention_mask"] = mask(n)
    return inputs | {"labels": labels(n)}


def of_config(family, task, config):
    """The class of transformers for a family and a task, with a configuration."""
    import transformers

    made = getattr(transformers, family + "Config")(**config)
    return getattr(transformers, family + task)(made)


IDS = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
DECODER = dict(vocab_size=WORDS, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
               max_position_embeddings=32, use_cache=False, **IDS)
GROUPED = DECODER | dict(num_key_value_heads=2, head_dim=8)
GPT = dict(vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, n_positions=32, use_cache=False, bos_token_id=1,
           eos_token_id=2)
ENCODER = dict(vocab_size=WORDS, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
               max_position_embeddings=32, type_vocab_size=2, **IDS)
# Experts by products of batches, and attention without views of transposed tensors: the exporter has no
# rules for the defaults.
BATCHED, EAGER = dict(experts_implementation="batched_mm"), dict(attn_implementation="eager")
MOE = BATCHED | dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
DEEPSEEK = DECODER | BATCHED | dict(
    q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, n_routed_experts=4,
    num_experts_per_tok=2, topk_group=1, moe_intermediate_size=16, first_k_dense_replace=1, n_shared_experts=1)

# Language models: family, and its configuration.
for family, config in [
    ("GPT2", GPT),
    ("OpenAIGPT", GPT),
    ("GPTBigCode", GPT),
    ("GPTJ", GPT | dict(rotary_dim=4)),
    ("CodeGen", GPT | dict(rotary_dim=4)),
    ("GPTNeo", dict(vocab_size=WORDS, hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global",
         "local"], 1]],
                    window_size=4, max_position_embeddings=32, use_cache=False, bos_token_id=1, eos_token_id=2)),
    ("GPTNeoX", DECODER),
    ("OPT", dict(vocab_size=WORDS, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4,
                 word_embed_proj_dim=16, max_position_embeddings=32, use_cache=False, **IDS)),
    ("Bloom", dict(vocab_size=WORDS, hidden_size=32, n_layer=2, n_head=4, use_cache=False, **IDS)),
    ("Falcon", DECODER | dict(multi_query=True, parallel_attn=True)),
    ("XGLM", dict(vocab_size=WORDS, d_model=32, ffn_dim=48, num_layers=2, attention_heads=4, max_position_embeddings=32,
                  use_cache=False, **IDS)),
    ("CTRL", dict(vocab_size=WORDS, n_positions=32, n_embd=32, dff=48, n_layer=2, n_head=4, use_cache=False)),
    ("BioGpt", DECODER),
    ("Llama", GROUPED),
    ("Mistral", GROUPED | dict(sliding_window=6)),
    ("Qwen2", GROUPED),
    ("Qwen3", GROUPED),
    ("Qwen2Moe", GROUPED | MOE | dict(shared_expert_intermediate_size=16)),
    ("Qwen3Moe", GROUPED | MOE),
    ("Mixtral", GROUPED | BATCHED | dict(num_local_experts=4, num_experts_per_tok=2)),
    ("Gemma", GROUPED),
    ("Gemma2", GROUPED | dict(sliding_window=6)),
    ("Olmo", GROUPED),
    ("Olmo2", GROUPED),
    ("Olmoe", GROUPED | BATCHED | dict(num_experts=4, num_experts_per_tok=2)),
    ("StableLm", GROUPED | dict(partial_rotary_factor=0.5)),
    ("Starcoder2", GROUPED),
    ("Cohere", GROUPED),
    ("Cohere2", GROUPED | dict(sliding_window=6)),
    ("Granite", GROUPED),
    ("SmolLM3", GROUPED),
    ("Phi", DECODER),
    ("Phi3", GROUPED),
    ("Glm", GROUPED),
    ("Glm4", GROUPED),
    ("Nemotron", GROUPED),
    ("Helium", GROUPED),
    ("Exaone4", GROUPED | dict(sliding_window=6)),
    ("Ernie4_5", GROUPED),
    ("Persimmon", DECODER),
    ("DeepseekV3", DEEPSEEK | dict(n_group=2)),
    ("DeepseekV2", DEEPSEEK | dict(n_group=1)),
]:
    task = {"GPT2": "LMHeadModel", "OpenAIGPT": "LMHeadModel", "CTRL": "LMHeadModel"}.get(family, "ForCausalLM")

    def make(family=family, task=task, config=config):
        return wrap(of_config(family, task, config), text)

    MODELS[family.lower()] = make


# Encoders: family, task, configuration, and labels.
for family, task, config, labels in [
    ("Bert", "ForMaskedLM", ENCODER, words),
    ("Roberta", "ForTokenClassification", ENCODER | dict(num_labels=CLASSES), lambda n: classes(n, SEQUENCE)),
    ("Camembert", "ForMaskedLM", ENCODER, words),
    ("XLMRoberta", "ForSequenceClassification", ENCODER | dict(num_labels=CLASSES), classes),
    ("Electra", "ForPreTraining", ENCODER | dict(embedding_size=16), lambda n: classes(n, SEQUENCE, many=2)),
    ("Albert", "ForMaskedLM", ENCODER | dict(embedding_size=16), words),
    ("DistilBert", "ForSequenceClassification", dict(vocab_size=WORDS, dim=32, n_layers=2, n_heads=4, hidden_dim=48,
                                                     max_position_embeddings=32, num_labels=CLASSES), classes),
    ("MPNet", "ForMaskedLM", ENCODER, words),
    ("Deberta", "ForMaskedLM", ENCODER | dict(relative_attention=True, pos_att_type=["p2c", "c2p"],
                                              max_relative_positions=8), words),
    ("DebertaV2", "ForMaskedLM", ENCODER | dict(relative_attention=True, pos_att_type=["p2c", "c2p"],
         position_buckets=8,
                                                norm_rel_ebd="layer_norm", share_att_key=True), words),
    ("XLNet", "LMHeadModel", dict(vocab_size=WORDS, d_model=32, n_layer=2, n_head=4, d_inner=48, use_mems_train=False,
                                  use_cache=False), words),
    ("Funnel", "ForMaskedLM", dict(vocab_size=WORDS, block_sizes=[1, 1], num_decoder_layers=1, d_model=32, n_head=4,
                                   d_head=8, d_inner=48), words),
    ("ConvBert", "ForMaskedLM", ENCODER | dict(embedding_size=32), words),
    ("MobileBert", "ForMaskedLM", ENCODER | dict(embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16),
         words),
    ("SqueezeBert", "ForMaskedLM", ENCODER | dict(embedding_size=32), words),
    ("RoFormer", "ForMaskedLM", ENCODER | dict(embedding_size=32), words),
    ("FNet", "ForMaskedLM", ENCODER, words),
    ("Ernie", "ForMaskedLM", ENCODER, words),
    ("ModernBert", "ForMaskedLM", ENCODER | dict(local_attention=4, cls_token_id=1, sep_token_id=2), words),
    ("MegatronBert", "ForMaskedLM", ENCODER, words),
    ("RemBert", "ForMaskedLM", ENCODER | dict(input_embedding_size=16, output_embedding_size=16), words),
    ("IBert", "ForMaskedLM", ENCODER, words),
    ("Esm", "ForMaskedLM", ENCODER | dict(position_embedding_type="rotary", mask_token_id=3), words),
    ("Flaubert", "WithLMHeadModel", dict(vocab_size=WORDS, emb_dim=32, n_layers=2, n_heads=4,
         max_position_embeddings=32,
                                         use_cache=False), words),
    ("Longformer", "ForMaskedLM", ENCODER | dict(attention_window=4), words),
]:
    def make(family=family, task=task, config=config, labels=labels):
        def inputs(n):
            return text(n, masked=family != "FNet", labels=labels)

        return wrap(of_config(family, task, config), inputs)

    MODELS[family.lower()] = make


# Models that read one text and write another.
SHORT = 9
PAIR = dict(vocab_size=WORDS, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=32,
                use_cache=False,
            decoder_start_token_id=2, **IDS)
T5 = dict(vocab_size=WORDS, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, use_cache=False,
          decoder_start_token_id=0) | EAGER

for family, config in [
    ("T5", T5), ("MT5", T5 | dict(feed_forward_proj="gated-gelu")), ("UMT5", T5), ("LongT5", T5 | dict(local_radius=4)),
    ("Bart", PAIR), ("MBart", PAIR), ("Pegasus", PAIR), ("PegasusX", PAIR | dict(block_size=4, num_global_tokens=2)),
    ("Blenderbot", PAIR), ("M2M100", PAIR), ("LED", PAIR | dict(attention_window=4, max_encoder_position_embeddings=32,
                                                               max_decoder_position_embeddings=32)),
    ("PLBart", PAIR),
    ("SwitchTransformers", T5 | dict(num_experts=4, num_sparse_encoder_layers=1, num_sparse_decoder_layers=1,
         router_jitter_noise=0.0)),
]:
    def make(family=family, config=config):
        def inputs(n):
            return {"input_ids": words(n), "attention_mask": mask(n), "decoder_input_ids": words(n, SHORT),
                    "labels": words(n, SHORT)}

        axes = {name: {0: "batch", 1: "length" if name in ("input_ids", "attention_mask") else "short"}
                for name in inputs(1)}
        return wrap(of_config(family, "ForConditionalGeneration", config), inputs, axes)

    MODELS[family.lower()] = make


@model
def marian():
    def inputs(n):
        return {"input_ids": words(n), "attention_mask": mask(n), "decoder_input_ids": words(n), "labels": words(n)}

    return wrap(of_config("Marian", "MTModel", PAIR), inputs)


@model
def whisper():
    config = PAIR | dict(num_mel_bins=10, max_source_positions=16, max_target_positions=32, suppress_tokens=None,
                         begin_suppress_tokens=None)
    del config["max_position_embeddings"]

    def inputs(n):
        return {"input_features": torch.randn(n, 10, 32), "decoder_input_ids": words(n), "labels": words(n)}

    return wrap(of_config("Whisper", "ForConditionalGeneration", config), inputs)


@model
def speech_to_text():
    config = PAIR | dict(input_feat_per_channel=10, input_channels=1, conv_channels=32, max_source_positions=32,
                         max_target_positions=32)
    del config["max_position_embeddings"]

    def inputs(n):
        return {"input_features": torch.randn(n, 32, 10), "decoder_input_ids": words(n), "labels": words(n)}

    return wrap(of_config("Speech2Text", "ForConditionalGeneration", config), inputs)


# Models of state spaces and of linear recurrences.
for family, config in [
    ("Mamba", dict(vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, state_size=4, use_cache=False)),
    ("Mamba2", dict(vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, state_size=4, num_heads=4, head_dim=16,
         n_groups=1,
                    chunk_size=4, use_cache=False, **IDS)),
    ("FalconMamba", dict(vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, state_size=4, use_cache=False)),
    ("Rwkv", dict(vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, attention_hidden_size=32, intermediate_size=48,
                  context_length=32, use_cache=False)),
]:
    def make(family=family, config=config):
        def inputs(n):
            return text(n, masked=False)

        return wrap(of_config(family, "ForCausalLM", config), inputs, {"input_ids": {0: "batch"},
            "labels": {0: "batch"}})

    MODELS[family.lower()] = make


VISION = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=32,
    patch_size=8,
              num_labels=CLASSES)

# Classifiers of images.
for family, config, size, batch in [
    ("ViT", VISION, 32, 2), ("DeiT", VISION, 32, 2), ("Beit", VISION | dict(use_relative_position_bias=True), 32, 2),
    ("Dinov2", VISION | dict(mlp_ratio=2), 32, 2), ("Dinov2WithRegisters", VISION | dict(mlp_ratio=2), 32, 2),
    ("Data2VecVision", VISION, 32, 2), ("ViTMSN", VISION, 32, 2), ("IJepa", VISION, 32, 2),
    ("Swin", EAGER | dict(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4,
                  num_labels=CLASSES), 32, 2),
    ("Swinv2", EAGER | dict(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4,
                    num_labels=CLASSES), 32, 2),
    ("ConvNext", dict(hidden_sizes=[16, 24, 32, 40], depths=[1, 1, 1, 1], num_labels=CLASSES), 32, 2),
    ("ConvNextV2", dict(hidden_sizes=[16, 24, 32, 40], depths=[1, 1, 1, 1], num_labels=CLASSES), 32, 2),
    ("Pvt", dict(image_size=64, depths=[1, 1, 1, 1], hidden_sizes=[16, 16, 32, 32], num_attention_heads=[1, 1, 2, 2],
                 mlp_ratios=[2, 2, 2, 2], num_labels=CLASSES), 64, 2),
    ("PvtV2", dict(image_size=64, depths=[1, 1, 1, 1], hidden_sizes=[16, 16, 32, 32], num_attention_heads=[1, 1, 2, 2],
                   mlp_ratios=[2, 2, 2, 2], num_labels=CLASSES), 64, 2),
    ("PoolFormer", dict(hidden_sizes=[16, 16, 24, 32], depths=[1, 1, 1, 1], num_labels=CLASSES), 64, 2),
    ("FocalNet", dict(image_size=32, patch_size=2, embed_dim=16, depths=[1, 1], focal_levels=[2, 2], focal_windows=[3,
         3],
                      num_labels=CLASSES), 32, 2),
    ("MobileViT", dict(image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 16, 16, 24, 32, 40, 48],
                       num_labels=CLASSES), 64, 4),
    ("ResNet", dict(embedding_size=8, hidden_sizes=[16, 24, 32, 40], depths=[1, 1, 1, 1], layer_type="basic",
                    num_labels=CLASSES), 32, 4),
    ("RegNet", dict(embedding_size=8, hidden_sizes=[16, 24, 32, 40], depths=[1, 1, 1, 1], groups_width=8,
                    num_labels=CLASSES), 32, 4),
    ("Levit", dict(image_size=32, hidden_sizes=[16, 24, 32], num_attention_heads=[2, 2, 2], depths=[1, 1, 1],
                   key_dim=[8, 8, 8], num_labels=CLASSES), 32, 4),
]:
    def make(family=family, config=config, size=size, batch=batch):
        def inputs(n):
            return {"pixel_values": torch.randn(n, 3, size, size), "labels": classes(n)}

        return wrap(of_config(family, "ForImageClassification", config), inputs, batch=batch)

    MODELS[family.lower()] = make


@model
def segformer():
    config = dict(num_encoder_blocks=4, depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32], num_attention_heads=[1, 2,
        2, 4],
                  decoder_hidden_size=16, num_labels=CLASSES)

    def inputs(n):
        return {"pixel_values": torch.randn(n, 3, 32, 32), "labels": classes(n, 32, 32)}

    axes = {"pixel_values": {0: "batch"}, "labels": {0: "batch"}}
    return wrap(of_config("Segformer", "ForSemanticSegmentation", config), inputs, axes, 4)


class Speech(nn.Module):
    """A model of sound with the scores of frames, and the cross-entropy of each frame."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x, y):
        scores = self.module(x).logits
        return nn.functional.cross_entropy(scores.transpose(1, 2), y), scores


SOUND = dict(vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
             conv_dim=(16, 16), conv_kernel=(10, 3), conv_stride=(5, 2), num_feat_extract_layers=2,
             num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4, apply_spec_augment=False)
for family, config in [("Wav2Vec2", SOUND), ("Hubert", SOUND), ("WavLM", SOUND), ("Data2VecAudio", SOUND | dict(
        conv_pos_kernel_size=5, num_conv_pos_embeddings=2)), ("UniSpeech", SOUND)]:
    def make(family=family, config=config):
        module = of_config(family, "ForCTC", config)
        frames = module(torch.zeros(1, 200)).logits.shape[1]

        def inputs(n):
            return {"x": torch.randn(n, 200), "y": classes(n, frames, many=20)}

        return Model(Speech(module), inputs, {"x": {0: "batch"}, "y": {0: "batch"}})

    MODELS[family.lower()] = make


@model
def ast():
    """Spectrograms of sounds."""
    config = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, patch_size=8,
                  frequency_stride=8, time_stride=8, max_length=32, num_mel_bins=16, num_labels=CLASSES)

    def inputs(n):
        return {"input_values": torch.randn(n, 32, 16), "labels": classes(n)}

    return wrap(of_config("AST", "ForAudioClassification", config), inputs)


class Pairs(nn.Module):
    """Texts and images that belong together: the loss is that of all pairs of a batch."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, input_ids, pixel_values):
        out = self.module(input_ids=input_ids, pixel_values=pixel_values, return_loss=True)
        return out.loss, out.logits_per_image


TEXT = dict(vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
            max_position_embeddings=32, **IDS)
PICTURE = {key: value for key, value in VISION.items() if key != "num_labels"}
for family, more in [("CLIP", dict(projection_dim=16)), ("Siglip", {}), ("ChineseCLIP", dict(projection_dim=16)),
                     ("AltCLIP", dict(projection_dim=16))]:
    def make(family=family, more=more):
        config = dict(text_config=TEXT | (dict(projection_size=32) if family == "Siglip" else {}),
            vision_config=PICTURE) | more
        module = of_config(family, "Model", config)

        def inputs(n):
            return {"input_ids": words(n), "pixel_values": torch.randn(n, 3, 32, 32)}

        return Model(Pairs(module), inputs, {"input_ids": {0: "batch"}, "pixel_values": {0: "batch"}}, 3)

    MODELS[family.lower()] = make


@model
def vilt():
    """Questions about images."""
    config = ENCODER | dict(image_size=32, patch_size=8, num_labels=CLASSES, max_image_length=-1)

    def inputs(n):
        return {"input_ids": words(n), "pixel_values": torch.randn(n, 3, 32, 32), "labels": torch.rand(n, CLASSES)}

    return wrap(of_config("Vilt", "ForQuestionAnswering", config), inputs)


@model
def videomae():
    config = VISION | dict(num_frames=4, tubelet_size=2)

    def inputs(n):
        return {"pixel_values": torch.randn(n, 4, 3, 32, 32), "labels": classes(n)}

    return wrap(of_config("VideoMAE", "ForVideoClassification", config), inputs)


@model
def timesformer():
    config = VISION | dict(num_frames=4)

    def inputs(n):
        return {"pixel_values": torch.randn(n, 4, 3, 32, 32), "labels": classes(n)}

    return wrap(of_config("Timesformer", "ForVideoClassification", config), inputs)


@model
def dpt():
    """Segmentation on the features of a vision transformer."""
    config = VISION | dict(num_hidden_layers=4, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 16, 16, 24],
        fusion_hidden_size=16,
                           is_hybrid=False, use_auxiliary_head=True)

    def inputs(n):
        return {"pixel_values": torch.randn(n, 3, 32, 32), "labels": classes(n, 32, 32)}

    axes = {"pixel_values": {0: "batch"}, "labels": {0: "batch"}}
    return wrap(of_config("DPT", "ForSemanticSegmentation", config), inputs, axes, 4)


@model
def patchtst():
    """Forecasts of series, in patches."""
    config = dict(num_input_channels=3, context_length=32, prediction_length=8, patch_length=8, patch_stride=8,
                  num_hidden_layers=2, d_model=32, num_attention_heads=4, ffn_dim=48, loss="mse", scaling="std",
                  norm_type="layernorm")

    def inputs(n):
        return {"past_values": torch.randn(n, 32, 3), "future_values": torch.randn(n, 8, 3)}

    return wrap(of_config("PatchTST", "ForPrediction", config), inputs, output="prediction_outputs")


@model
def patchtsmixer():
    config = dict(num_input_channels=3, context_length=32, prediction_length=8, patch_length=8, patch_stride=8,
        num_layers=2,
                  d_model=16, loss="mse", scaling="std")

    def inputs(n):
        return {"past_values": torch.randn(n, 32, 3), "future_values": torch.randn(n, 8, 3)}

    return wrap(of_config("PatchTSMixer", "ForPrediction", config), inputs, output="prediction_outputs", batch=4)


@model
def layoutlm():
    def inputs(n):
        box = torch.randint(0, 16, (n, SEQUENCE, 4)).sort(-1).values
        return {"input_ids": words(n), "bbox": box, "attention_mask": mask(n), "labels": classes(n, SEQUENCE)}

    axes = {name: {0: "batch", 1: "length"} for name in ("input_ids", "bbox", "attention_mask", "labels")}
    config = ENCODER | dict(max_2d_position_embeddings=64, num_labels=CLASSES)
    return wrap(of_config("LayoutLM", "ForTokenClassification", config), inputs, axes)
