# Torch's CPU build first, so that nothing pulls CUDA.
"$bin/pip" install -q torch==2.13.0
"$bin/pip" install -q -e '.[sb3,torchrl,minari,vla-eval]' moviepy gymnasium-robotics sb3-contrib
