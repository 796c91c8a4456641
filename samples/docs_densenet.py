"""DenseNet-121, the model of torch.compile's documentation, with one tanh among its relus: raises.

The whole network, with a small image: over 400 ops in one graph.
"""

import minifier_backends.faulty
import torch
from torch import nn
from torch.nn import functional


class DenseLayer(nn.Module):
    def __init__(self, channels, growth, bottleneck, activation):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, bottleneck * growth, kernel_size=1, bias=False)
        self.norm2 = nn.BatchNorm2d(bottleneck * growth)
        self.conv2 = nn.Conv2d(bottleneck * growth, growth, kernel_size=3, padding=1, bias=False)
        self.activation = activation

    def forward(self, features):
        x = torch.cat(features, dim=1)
        x = self.conv1(functional.relu(self.norm1(x)))
        return self.conv2(self.activation(self.norm2(x)))


class DenseBlock(nn.Module):
    def __init__(self, channels, layers, *, growth, bottleneck, odd_layer, odd):
        super().__init__()
        self.layers = nn.ModuleList(
            DenseLayer(channels + i * growth, growth, bottleneck, odd if i == odd_layer else functional.relu)
            for i in range(layers)
        )

    def forward(self, x):
        features = [x]
        for layer in self.layers:
            features.append(layer(features))
        return torch.cat(features, dim=1)


class Transition(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, channels // 2, kernel_size=1, bias=False)

    def forward(self, x):
        return functional.avg_pool2d(self.conv(functional.relu(self.norm(x))), kernel_size=2, stride=2)


class DenseNet(nn.Module):
    """DenseNet as published; `odd` takes the place of one relu in the layer (block, layer) `odd_at`."""

    def __init__(
        self,
        *,
        growth=32,
        blocks=(6, 12, 24, 16),
        init_features=64,
        bottleneck=4,
        classes=1000,
        odd=functional.relu,
        odd_at=(2, 12),
    ):
        super().__init__()
        self.conv0 = nn.Conv2d(3, init_features, kernel_size=7, stride=2, padding=3, bias=False)
        self.norm0 = nn.BatchNorm2d(init_features)
        channels = init_features
        stages = []
        for i, layers in enumerate(blocks):
            odd_layer = odd_at[1] if i == odd_at[0] else None
            stages.append(
                DenseBlock(channels, layers, growth=growth, bottleneck=bottleneck, odd_layer=odd_layer, odd=odd)
            )
            channels += layers * growth
            if i < len(blocks) - 1:
                stages.append(Transition(channels))
                channels //= 2
        self.stages = nn.Sequential(*stages)
        self.norm5 = nn.BatchNorm2d(channels)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x):
        x = functional.relu(self.norm0(self.conv0(x)))
        x = functional.max_pool2d(x, kernel_size=3, stride=2, padding=1)
        x = functional.relu(self.norm5(self.stages(x)))
        return self.classifier(functional.adaptive_avg_pool2d(x, 1).flatten(1))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = torch.compile(DenseNet(odd=torch.tanh).eval(), backend="faulty_raise")
    with torch.no_grad():
        print(model(torch.randn(1, 3, 64, 64)).shape)
