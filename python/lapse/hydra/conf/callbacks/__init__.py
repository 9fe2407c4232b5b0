# SPDX-License-Identifier: Apache-2.0
"""The config group `callbacks`."""
