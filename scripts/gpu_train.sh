#!/usr/bin/env bash
# Measures on a GPU how much the loader slows down training steps, and which resources it needs during training.
#
#   scripts/gpu_train.sh FOLDER            FOLDER holds class folders of JPEGs; everything, about 25 minutes on an H100
#   scripts/gpu_train.sh FOLDER PART ...   only these parts, each in less than 10 minutes:
#
#   steps      ResNet-18, also in a stream of higher priority. The sides take turns.
#   cores      ResNet-50 with 16, 4, 2 and 1 cores (or CORES=8,2,1)
#   accuracy   five seeds of a small classification, in five ways to decode
#   poster     the six steps of the poster with the small model and with a U-Net, and the utilisation over time
#   memory     10,000 batches that the host decodes, and as many that the GPU decodes
#
# Needs the wheel, PyTorch with CUDA, torchvision, blosc2 and nvidia-ml-py (`scripts/package.sh --torch`). Writes into
# benches/runs, target/accuracy and target/poster.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if (($# == 0)); then
  echo "gpu_train: no folder of JPEGs given" >&2
  echo "hint: scripts/gpu_train.sh FOLDER" >&2
  exit 2
fi
folder=$1
shift
python=python3
[[ -x .venv-package/bin/python ]] && python=.venv-package/bin/python
(($#)) || set -- steps cores accuracy poster memory

for part; do
  echo "gpu_train: $part" >&2
  case $part in
    steps)
      # `+urgent` trains in a stream of higher priority. Its ceiling uses the same kind of stream.
      "$python" benches/train.py "$folder" --models resnet18 --rounds 5 --seconds 3 --sides \
        ceiling device-1 ceiling+urgent device-1+urgent
      ;;
    cores)
      "$python" benches/train.py "$folder" --no-save --models resnet50 --rounds 2 --seconds 2 \
        --cores "${CORES:-16,4,2,1}" --sides ceiling device-1 device-all host workers
      ;;
    accuracy) "$python" benches/accuracy.py "$folder" ;;
    poster) "$python" python/examples/poster.py --cubes 24 --copies 4 --model both --out target/poster ;;
    memory)
      "$python" benches/flat.py "$folder" --decode host
      "$python" benches/flat.py "$folder" --decode device
      ;;
    *)
      echo "gpu_train: unknown part: $part" >&2
      echo "hint: the parts are steps, cores, accuracy, poster and memory" >&2
      exit 2
      ;;
  esac
done
