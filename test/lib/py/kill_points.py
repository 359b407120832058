# SPDX-License-Identifier: Apache-2.0
"""Kill points that only a host with device-mapper passes: a guest of test/vm dies at them, test/killpoints at all others."""

OF_DEVICE_MAPPER = {"format: container created", "format: container opened", "stage: record of the open written", "stage: container opened",
                    "stage: container closed", "unstage: container closed", "expand: container grown"}
