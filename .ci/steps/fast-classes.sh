# All 50 fast classes compute the same bits as Meta-World's own.
"$bin/mtwrappers" verify-fast
