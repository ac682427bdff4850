"""Small forms of timm's models."""

from model import CLASSES, MODELS, images, model


def create(name, size, batch, options):
    import timm

    return images(timm.create_model(name, pretrained=False, num_classes=CLASSES, **options), size, batch)


SMALL_VIT = dict(img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4)

# Name, timm's name, the size of images, and options that make the model small.
for short, name, size, options in [
    ("resnet10t", "resnet10t", 64, dict(channels=(8, 16, 24, 32))),
    ("resnetv2", "resnetv2_50", 32, dict(layers=(1, 1, 1, 1), channels=(32, 32, 64, 64), stem_chs=16)),
    ("convnext", "convnext_atto", 32, dict(depths=(1, 1, 2, 1), dims=(16, 24, 32, 40))),
    ("mobilenetv3", "mobilenetv3_small_050", 64, {}),
    ("mobilenetv4", "mobilenetv4_conv_small_035", 64, {}),
    ("vit", "vit_tiny_patch16_224", 32, SMALL_VIT),
    ("deit3", "deit3_small_patch16_224", 32, SMALL_VIT),
    ("eva02", "eva02_tiny_patch14_224", 32, SMALL_VIT),
    ("beit", "beit_base_patch16_224", 32, SMALL_VIT),
    ("cait", "cait_xxs24_224", 32, SMALL_VIT),
    ("xcit", "xcit_nano_12_p16_224", 64, dict(depth=2, embed_dim=32, num_heads=4)),
    (
        "swin",
        "swin_tiny_patch4_window7_224",
        32,
        dict(img_size=32, patch_size=2, window_size=4, embed_dim=16, depths=(2, 2), num_heads=(2, 4)),
    ),
    (
        "swinv2",
        "swinv2_tiny_window8_256",
        32,
        dict(img_size=32, patch_size=2, window_size=4, embed_dim=16, depths=(2, 2), num_heads=(2, 4)),
    ),
    ("maxvit", "maxvit_rmlp_pico_rw_256", 64, dict(img_size=64, embed_dim=(32, 64), depths=(1, 1), stem_width=8)),
    ("repvit", "repvit_m0_9", 64, {}),
    ("nfnet", "nfnet_f0", 32, dict(channels=(16, 24, 32, 40), depths=(1, 1, 1, 1), stem_chs=16, group_size=8)),
    ("regnet", "regnetx_002", 64, {}),
    ("hiera", "hiera_tiny_224", 64, dict(img_size=(64, 64), embed_dim=16, stages=(1, 1, 1, 1), num_heads=1)),
    (
        "davit",
        "davit_tiny",
        64,
        dict(depths=(1, 1, 1, 1), embed_dims=(16, 32, 32, 64), num_heads=(2, 2, 2, 2), window_size=4),
    ),
    (
        "sequencer",
        "sequencer2d_s",
        32,
        dict(layers=(1, 1, 1, 1), patch_sizes=(4, 2, 1, 1), embed_dims=(16, 32, 32, 32), hidden_sizes=(4, 8, 8, 8)),
    ),
]:

    def make(name=name, size=size, options=options):
        return create(name, size, 8, options)

    MODELS[f"timm_{short}"] = make


def mixer(block):
    """A perceptron that mixes patches and channels in turn."""
    from timm.layers import GatedMlp
    from timm.models import mlp_mixer

    layer = dict(mixer=mlp_mixer.MixerBlock, gmlp=mlp_mixer.SpatialGatingBlock, resmlp=mlp_mixer.ResBlock)[block]
    options = dict(
        mixer={}, gmlp=dict(mlp_ratio=4, mlp_layer=GatedMlp), resmlp=dict(mlp_ratio=4, norm_layer=mlp_mixer.Affine)
    )[block]
    return images(
        mlp_mixer.MlpMixer(
            num_classes=CLASSES, img_size=32, patch_size=8, num_blocks=2, embed_dim=32, block_layer=layer, **options
        ),
        32,
        4,
    )


@model
def timm_mixer():
    return mixer("mixer")


@model
def timm_gmlp():
    return mixer("gmlp")


@model
def timm_resmlp():
    return mixer("resmlp")
