"""What the board's power lets the multiply-adds of FP32 sustain.

T4 (12 nm) and P4 (16 nm) reach about 3 TFLOP/s in long products, 40% and 60% of what their clocks
promise: 70 and 75 W hold them back. Energy per operation shrinks with the process as the foundry
says: TSMC N7 takes 60% less power than 16FF+ at equal speed, N5 another 30% less (TSMC's pages on
N7 and N5); NVIDIA gives 1.9 times the efficiency of Turing for its Samsung 8N (GA102 white paper).
"""

from __future__ import annotations

from collections.abc import Mapping

from tune_farm.tuner.predictor.forecast.chip import Chip

#: Efficiency over that of 16 and 12 nm.
_EFFICIENCY = {16: 1.0, 12: 1.0, 8: 1.9, 7: 1 / 0.4, 5: 1 / 0.4 / 0.7, 4: 1 / 0.4 / 0.7}
#: Of the board, for memory, leakage and conversion, whatever is computed.
_IDLE_WATTS = 25.0


def sustained_flops(chip: Chip, numbers: Mapping[str, float]) -> float:
    """FP32 operations a second that the board's power carries.

    Args:
        chip: an instance of MIG has its part of the SMs' power; a share of SMs may use all of it.
        numbers: `gigaflops_per_watt` at 16 nm.
    """
    part = chip.sms / chip.total_sms if chip.is_instance else 1.0
    watts = max(chip.board_watts - _IDLE_WATTS, chip.board_watts / 2) * part
    return watts * numbers["gigaflops_per_watt"] * 1e9 * process_efficiency(chip)


def process_efficiency(chip: Chip) -> float:
    """Operations per joule over those of 16 nm; of a process that is not listed, the next older."""
    older = [size for size in _EFFICIENCY if size >= chip.process_nanometers]
    return _EFFICIENCY[min(older)] if older else 1.0
