"""Lines of public logs of the backend, and one of each layout in the form of its source."""

SYNCHRONOUS = (  # ggml-org/llama.cpp issue 18139 (v79, HVX only)
    "ggml-hex: HTP0 MUL_MAT leaf_0 4096:4096:1:1 x leaf_1 4096:64:1:1 -> q_proj 4096:64:1:1 : total 5053 us "
    "(quant 56 us, compute 4925 us, vtcm 68 us) cycles 10672609 pkts 5144869 (2.07) call 11 us\n"
    "ggml-hex: HTP0 MUL_MAT leaf_0 4096:4096:1:1 x leaf_1 4096:64:1:1 -> q_proj 4096:64:1:1 : total 4972 us "
    "(quant 42 us, compute 4928 us, vtcm 0 us) cycles 10501780 pkts 5121105 (2.05) call 35 us\n"
)
SESSION = (  # device logs of a v79 phone
    "ggml-hex: HTP0 hwinfo: threads 6, hvx 6, hmx 1, vtcm 8 MB\n"
    "ggml-hex: HTP0 op batching: n-bufs 16 n-tensors 7168 n-ops 1024 vmem 3355443200\n"
)
EARLY = (  # form of the first operator profiler; invented values
    "ggml-hex: HTP0 profile-op MUL_MAT: blk.0.ffn_up.weight x norm-0 -> up-0 : 2048:6144 x 2048:1 -> 6144:1 : "
    "q4_0 x f32 -> f32 : 18:1152 x 4:8192 -> 4:24576 : HTP0-REPACK x HTP0 -> HTP0 : "
    "op-usec 145 op-cycles 306240 op-pkts 144000 (2.126667) call-usec 310\n"
)
COLONS = (  # form of the layout with colons; the batch line has the averages of a public project note
    "0.01.234.567 D ggml-hex: HTP0 profile-op RMS_NORM+MUL: l_out-0 x blk.1.attn_norm.weight -> norm-1 : "
    "2048:1 x 2048:1 -> 2048:1 : f32 x f32 -> f32 : 4:8192 x 4:8192 -> 4:8192 : usec 5 cycles 10560\n"
    "0.01.234.570 D ggml-hex: HTP0 profile-op ADD: a x b -> c : 64:2:3:1 x 64:2:3:1 -> 64:2:3:1 : f32 x f32 -> f32 : "
    "4:256:512:1536 x 4:256:512:1536 -> 4:256:512:1536 : usec 3 cycles 6336 pmu [1,2,3,4,5,6,7,8]\n"
    "ggml-hex: HTP0 trace-op ADD: thread 0 event HVX_COMP info 3 stop 77\n"
    "ggml-hex: HTP0 profile-batch n-ops 535 batch-dur-usec 18716 htp-ops-usec 17759\n"
)
PIPES = (  # test data of public repositories: right form, invented values
    "ggml-hex: HTP0 profile-op OPBATCH|----|n-ops 2|----|----|----|usec 700 cycles 700 start 1000 mhz 1.0\n"
    "ggml-hex: HTP0 profile-op MUL_MAT|blk.0.attn.weight x act -> out|2048:6144 x 2048:30 -> 6144:30|"
    "q8_0 x f32 -> f32|34:2176 x 4:8192 -> 4:24576|hmx-tiled vtcm 8000000|usec 435 cycles 845450 start 1 mhz 1943.6\n"
    "ggml-hex: HTP0 trace-evt HVX_COMP: thread 0 info 0 start 1050\n"
)
OTHERS = "llama_model_loader: loaded\nggml-hex: Hexagon Arch version v79\nggml-hex: HTP0 profile-op MUL_MAT|torn\n"
ALL = SYNCHRONOUS + SESSION + EARLY + COLONS + PIPES + OTHERS
