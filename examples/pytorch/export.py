"""Exports resnet18 of torchvision for training: the file keeps normalisation and dropout, and its batch is open.

    python3 examples/pytorch/export.py
    tenure estimate resnet18.onnx --train --batch 8 --as pytorch
"""
import torch
import torchvision

model = torchvision.models.resnet18()
model.train()
torch.onnx.export(
    model, torch.zeros(2, 3, 224, 224), "resnet18.onnx",
    training=torch.onnx.TrainingMode.TRAINING,  # keeps BatchNormalization and Dropout
    do_constant_folding=False,                  # keeps parameters as they are
    opset_version=14,
    input_names=["input"], output_names=["scores"],
    dynamic_axes={"input": {0: "batch"}})       # leaves the batch open
