#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needs: vm
# timeout: 900
# Three points of the kill laboratory: `vtile clean` after SIGKILL leaves nothing and touches nothing else.
set -euo pipefail
[ "$(id -u)" -eq 0 ] || { echo "needs root"; exit 77; }
"$VTILE_BUILD/vtile" image build >/dev/null
exec bash "$VTILE_SOURCE/tests/lab/kill.sh" spread 3
