"""A small model trained by Hugging Face's ``Trainer``, as their quickstart has it, made private by one line. Also as a
program, for tests that kill it and resume it.

python huggingface_training.py FOLDER EPOCHS [peft]
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    TrainerCallback,
    TrainingArguments,
)

from evr.integrations.huggingface import PrivateTrainer
from integrations.programs import dies

RECORDS, BATCH, NOISE = 60, 10, 1.2


class Sentences(Dataset):
    def __init__(self, labels="class", records=RECORDS):
        self.labels, self.records = labels, records

    def __len__(self):
        return self.records

    def __getitem__(self, index):
        words = torch.randint(0, 50, (8,), generator=torch.Generator().manual_seed(index))
        labels = torch.tensor(index % 2)
        if self.labels != "class":
            labels = words.clone()
            labels[: index % 3 if self.labels == "ragged" else 0] = -100
        return {"input_ids": words, "labels": labels}


def classifier():
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = BertForSequenceClassification(BertConfig(vocab_size=50, max_position_embeddings=16, **sizes))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("embeddings" not in name)  # as Opacus's tutorial does
    return model


def language_model():
    return GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2))


def arguments(folder, **options):
    return TrainingArguments(
        str(folder),
        **{
            "per_device_train_batch_size": BATCH,
            "num_train_epochs": 2,
            "learning_rate": 1e-3,
            "report_to": [],
            "use_cpu": True,
            "disable_tqdm": True,
            "save_strategy": "no",
            **options,
        },
    )


def trainer(folder, model=None, labels="class", noise=NOISE, kind=PrivateTrainer, records=RECORDS, **options):
    own = {name: options.pop(name) for name in ("callbacks", "engine", "make_private") if name in options}
    return kind(
        model=model or classifier(),
        args=arguments(folder, **options),
        train_dataset=Sentences(labels, records),
        noise_multiplier=noise,
        record=Path(folder) / "training.record.jsonl",
        **own,
    )


def adapted():
    """A language model with adapters."""
    import peft

    return peft.get_peft_model(language_model(), peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True))


class Dies(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        dies(state.global_step)


def main(folder: Path, epochs: int, peft: bool) -> None:
    model = {"model": adapted(), "labels": "words"} if peft else {}
    one = trainer(folder, num_train_epochs=epochs, save_strategy="epoch", callbacks=[Dies()], **model)
    one.train(resume_from_checkpoint=any(folder.glob("checkpoint-*")) or None)
    print("done", one.record and one.record.steps, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), "peft" in sys.argv)
