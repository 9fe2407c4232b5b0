# SPDX-License-Identifier: Apache-2.0
"""Configurations for Hydra, found as pkg://lapse.hydra.conf."""
