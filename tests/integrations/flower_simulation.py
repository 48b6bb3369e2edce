"""A federated regression as Flower's quickstart has it, in its simulation engine, with evr's accountant: two lines.

python flower_simulation.py FOLDER [ROUNDS]

With a state in the folder it goes on from there.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, NeighboringRelation, PrivacyConfig, SamplingMethod, ServerApp
from flwr.serverapp.exception import PrivacyBudgetExhausted
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.simulation import run_simulation

from evr.integrations.flower import Accountant

CLIENTS, NOISE = 4, 4.0
client, server = ClientApp(), ServerApp()
CONFIG = PrivacyConfig(
    target_delta=1e-5,
    population_size=CLIENTS,
    neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
    sampling_method=SamplingMethod.NO_AMPLIFICATION,
    max_epsilon=2.5,
)


@client.train()
def train(message: Message, context: Context) -> Message:
    (weights,) = message.content["arrays"].to_numpy_ndarrays()
    draws = np.random.default_rng(int(context.node_config["partition-id"]))
    x = draws.normal(size=(20, 4))
    gradient = x.T @ (x @ weights - x @ np.array([1.0, -1.0, 0.5, 0.0])) / 20
    reply = {"arrays": ArrayRecord([weights - 0.1 * gradient]), "metrics": MetricRecord({"num-examples": 20})}
    return Message(content=RecordDict(reply), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    folder, rounds = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 30
    accountant, state = Accountant(CONFIG), folder / "state.json"
    if state.exists():
        accountant.load_state_dict(json.loads(state.read_text()))
    average = FedAvg(fraction_evaluate=0.0, min_train_nodes=CLIENTS, min_available_nodes=CLIENTS)
    strategy = DifferentialPrivacyServerSideFixedClipping(average, NOISE, 1.0, CLIENTS, accountant=accountant)
    try:
        strategy.start(grid=grid, initial_arrays=ArrayRecord([np.zeros(4)]), num_rounds=rounds)
    except PrivacyBudgetExhausted as stopped:
        print("stopped:", stopped, flush=True)
    state.write_text(json.dumps(accountant.state_dict()))
    accountant.certify(ledger=folder / "ledger.sqlite", path=folder / "run.certificate.json")
    print("done", accountant.num_releases, flush=True)


if __name__ == "__main__":
    run_simulation(server, client, CLIENTS, backend_config={"client_resources": {"num_cpus": 1}})
