"""Small forms of torchvision's models."""

import torch
from torch import nn
from torch.nn import functional as F

from model import CLASSES, MODELS, Model, WithLoss, classes, images, model


def classifier(name, **options):
    def make():
        from torchvision import models

        return images(getattr(models, name)(weights=None, num_classes=CLASSES, **options), 64, 8)

    return make


MODELS["tv_mobilenet_v2"] = classifier("mobilenet_v2", width_mult=0.25)
MODELS["tv_mobilenet_v3"] = classifier("mobilenet_v3_small")
MODELS["tv_shufflenet"] = classifier("shufflenet_v2_x0_5")
MODELS["tv_squeezenet"] = classifier("squeezenet1_1")
MODELS["tv_mnasnet"] = classifier("mnasnet0_5")
MODELS["tv_regnet"] = classifier("regnet_y_400mf")


@model
def tv_resnet():
    from torchvision.models.resnet import BasicBlock, ResNet

    return images(ResNet(BasicBlock, [1, 1, 1, 1], num_classes=CLASSES, width_per_group=64), 64, 8)


@model
def tv_densenet():
    from torchvision.models import DenseNet

    return images(DenseNet(8, (2, 2, 2), 16, num_classes=CLASSES), 32, 4)


@model
def tv_vit():
    from torchvision.models import VisionTransformer

    return images(VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=CLASSES))


@model
def tv_swin():
    from torchvision.models import SwinTransformer

    return images(SwinTransformer([2, 2], 16, [2, 2], [2, 4], [4, 4], num_classes=CLASSES, stochastic_depth_prob=0.0))


@model
def tv_convnext():
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    stages = [CNBlockConfig(16, 24, 1), CNBlockConfig(24, 32, 2), CNBlockConfig(32, None, 1)]
    return images(ConvNeXt(stages, stochastic_depth_prob=0.0, num_classes=CLASSES))


@model
def tv_maxvit():
    from torchvision.models import MaxVit

    return images(MaxVit((32, 32), 16, 4, [16, 32], [1, 1], 8, 0.0, num_classes=CLASSES), 32, 4)


@model
def tv_lraspp():
    """Segmentation."""
    from torchvision.models.segmentation import lraspp_mobilenet_v3_large

    module = lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=CLASSES)

    def inputs(n):
        return {"x": torch.randn(n, 3, 64, 64), "y": classes(n, 64, 64)}

    axes = {"x": {0: "batch"}, "y": {0: "batch"}}
    return Model(WithLoss(module, pick=lambda out: out["out"]), inputs, axes, 4)


@model
def tv_ssdlite():
    """Detection: scores and boxes at the anchors; the matching of boxes is not part of it."""
    from torchvision.models.detection import ssdlite320_mobilenet_v3_large

    whole = ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4)

    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone, self.head = whole.backbone, whole.head

        def forward(self, x, boxes):
            out = self.head(list(self.backbone(x).values()))
            loss = F.smooth_l1_loss(out["bbox_regression"], boxes) + out["cls_logits"].square().mean()
            return loss, out["cls_logits"]

    with torch.no_grad():
        found = whole.eval().head(list(whole.backbone(torch.zeros(1, 3, 96, 96)).values()))
    anchors = found["bbox_regression"].shape[1]

    def inputs(n):
        return {"x": torch.randn(n, 3, 96, 96), "boxes": torch.randn(n, anchors, 4)}

    return Model(Heads(), inputs, {"x": {0: "batch"}, "boxes": {0: "batch"}}, 4)
