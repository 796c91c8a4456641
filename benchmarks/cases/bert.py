"""An encoder of BERT's size and shape, of transformers, whose activation the backend refuses; random weights."""

import pocket  # noqa: F401 - registers the backend
import torch
from transformers import BertConfig, BertModel

torch.manual_seed(0)
config = BertConfig(hidden_act="mish", attn_implementation="eager")
model = torch.compile(BertModel(config).eval(), backend="pocket_one")
with torch.no_grad():
    print(model(torch.randint(0, 1000, (1, 16))).pooler_output.shape)
