#!/usr/bin/env bash
# The recipe that ESE was published with (README_ESE of angle-emb), as one command:
#
#     bash research/ese_recipe.sh MODEL triples.jsonl OUT [options of `demitasse train`, which win over those below]
#     NPROC=4 bash research/ese_recipe.sh WhereIsAI/UAE-Large-V1 nli.jsonl run
#
# MODEL is a folder or a hub name; each line of triples.jsonl (or .jsonl.gz) has text, positive and negative. NPROC is
# the number of GPUs (default 1; the authors used 4). Pooling is the model's own: no option here stands for the
# recipe's pooling_strategy cls, so MODEL must be one that pools that way. docs/migrating.md has the recipe's lines.
set -euo pipefail

if (($# < 3)); then
    echo "usage: bash $0 MODEL triples.jsonl OUT [options of demitasse train]" >&2
    exit 2
fi
model=$1 data=$2 out=$3
shift 3
nproc=${NPROC:-1}
batch=$((128 * nproc)) # 128 a GPU; ours counts all GPUs, and all of them share their negatives
accumulate=4

# Ours is a share of the steps: 200 over as many as one epoch takes, and never more than 1. A run shorter than 200 steps
# (4 GPUs: below 409,600 rows) thus reaches its rate with its last step; theirs would not have reached it.
rows=$(gzip -cdf -- "$data" | grep -c '[^[:space:]]' || true)
warmup=$(LC_ALL=C awk -v rows="$rows" -v step=$((batch * accumulate)) \
    'BEGIN { steps = int(rows / step + 0.5); printf "%.6f", (steps <= 200 ? 1 : 200 / steps) }')

# ibn_w 10 and angle_w 1 as angle-emb 0.5.5 and later read them: 5 CE(q, p) + 0.5 CE(q, [p; n]) + angle. When ESE was
# published they meant 10 CE(q, [p; n]) + angle; for that, add
#     --loss angle:in_batch_weight=0,contrast_weight=20,angle_weight=1
options=(
    train "$data"
    --base "$model"                              # model_name_or_path
    --out "$out"                                 # save_dir; the model is in its folder model
    --objective espresso-released:dims=128,temperature=1 # apply_ese 1, ese_compression_size 128, ese_kl_temperature 1
    --loss angle:cosine_weight=0,in_batch_weight=10,contrast_weight=1,angle_weight=1,angle_scale=20
    --rate 1e-6                                  # learning_rate
    --max-tokens 75                              # maxlen
    --epochs 1                                   # epochs
    --batch "$batch"                             # batch_size 128
    --accumulate "$accumulate"                   # gradient_accumulation_steps 4
    --warmup "$warmup"                           # warmup_steps 200
    --schedule linear                            # not named there: what its trainer does
    --decay 0                                    # the same
    --clip 1                                     # the same
    --precision fp16                             # fp16 1
)
if ((nproc > 1)); then
    exec torchrun --standalone --nproc-per-node "$nproc" --module demitasse "${options[@]}" "$@"
fi
exec python -m demitasse "${options[@]}" "$@"
