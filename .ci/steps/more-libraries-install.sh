# Tianshou fixes versions of what others use too.
"$bin/pip" install -q -e '.[skrl,tianshou]'
# PufferLib asks for a PyTorch of its own, with CUDA, and works without.
"$bin/pip" install -q --no-deps pufferlib-core==3.0.23
"$bin/pip" install -q psutil rich rich-argparse pyro-ppl nvidia-ml-py
