//! What the kernels of the library are for, and what CUTLASS calls them.
//!
//! Invariant: every kernel of the folder stands in one group (tested).

/// A title, and the kernels under it in the order in which they are listed.
pub(super) type Group = (&'static str, &'static [&'static str]);

/// The groups.
#[rustfmt::skip] // A table.
pub(super) const GROUPS: &[Group] = &[
    ("plain products", &[
        "product_nt", "product_nn", "product_tn", "product_tt", "product_f32", "batched_product", "batched_shared_weight", "scaled_product",
        "product_amax", "u8_product", "gram", "transposed_copy",
    ]),
    ("linear layers", &[
        "linear", "linear_gelu", "linear_gelu_aux", "linear_gelu_tanh", "linear_gelu_tanh_aux", "linear_silu", "linear_snake", "linear_clamp",
        "linear_batch_norm", "linear_layer_norm", "linear_rms_norm", "linear_softmax", "linear_log_softmax", "batched_bias_silu", "softcap",
        "dropout", "dropout_bits", "philox_dropout", "residual", "residual_dropout", "residual_layer_scale", "lora_linear", "lstm_cell",
    ]),
    ("gated layers", &[
        "swiglu", "swiglu_aux", "swiglu_interleaved", "swiglu_mlp", "geglu", "geglu_interleaved", "reglu", "reglu_interleaved", "glu",
    ]),
    ("backward passes", &[
        "weight_gradient", "weight_update_stochastic", "adamw_step", "relu_backward", "relu_mask_backward", "silu_backward", "gelu_backward_bias",
        "gelu_backward_row_bias", "gelu_tanh_backward_bias", "batched_bias_gradient", "swiglu_backward", "swiglu_interleaved_backward",
        "swiglu_mlp_backward", "geglu_backward", "reglu_backward", "philox_dropout_backward", "lora_linear_backward",
    ]),
    ("linear combinations, as CUTLASS has them", &[
        "lincomb", "lincomb_scalars_in_memory", "lincomb_relu", "lincomb_bias", "lincomb_bias_relu", "lincomb_bias_gelu_aux",
        "lincomb_bias_relu_mask", "lincomb_row_bias", "lincomb_row_bias_silu", "lincomb_row_bias_gelu_aux", "lincomb_row_bias_relu_mask",
        "row_scaled_lincomb_relu", "col_scaled_lincomb_relu", "col_scaled_relu_residual", "lincomb_gelu_backward", "lincomb_topk_softmax",
        "lincomb_block_scale",
    ]),
    ("norms and statistics", &[
        "rms_norm_linear", "rms_norm_rows", "layer_norm_rows", "softmax_rows", "apply_rms", "rms_statistic", "residual_rms_statistic",
        "layer_statistics", "row_mean_variance", "batch_norm_statistics", "per_head_rms_norm",
    ]),
    ("attention and positions", &[
        "attention", "attention_statistics", "causal_attention_statistics", "grouped_query_statistics", "causal_scores",
        "batched_causal_softmax", "multihead_causal_scores", "qkv_split", "qkv_norm_rotary", "qkv_norm_rotary_halves",
        "per_head_rms_norm_rotary", "rotary_halves", "rotary_interleaved",
    ]),
    ("experts", &[
        "moe_router", "topk_router", "deepseek_router", "deepseek_grouped_router", "moe_forward", "moe_linear", "moe_gathered_linear",
        "moe_masked_linear", "moe_swiglu", "moe_fp8_linear", "moe_combine", "moe_input_gradient", "moe_weight_gradient", "moe_bias_gradient",
    ]),
    ("losses", &[
        "cross_entropy", "cross_entropy_backward", "cross_entropy_loss", "cross_entropy_gradient", "cross_entropy_softmax_gradient",
        "smoothed_cross_entropy_loss", "softcap_cross_entropy",
        "linear_cross_entropy", "linear_cross_entropy_backward", "linear_cross_entropy_backward_chunk", "cross_entropy_chunk",
        "cross_entropy_chunk_gradient", "classifier_loss", "classifier_loss_backward", "bce_loss", "bce_gradient", "bce_loss_gradient",
        "mse_loss", "mse_loss_gradient", "huber_loss", "huber_loss_gradient", "multi_margin_loss", "multi_margin_loss_scored",
        "crammer_singer_loss", "distillation_loss", "distillation_loss_logprobs",
    ]),
    ("tokens and logits", &[
        "greedy_token", "greedy_statistics", "gumbel_token", "gumbel_token_philox", "topk_tokens", "top2_margin", "lm_head_statistics",
        "token_logprob_entropy",
    ]),
    ("distances and ranks", &[
        "pairwise_distances", "cosine_similarity", "nearest_code", "target_rank", "target_rank_scored", "sinkhorn_rows", "sinkhorn_columns",
    ]),
    ("fp8", &[
        "fp8_product", "fp8_row_col_scaled", "fp8_bias_gelu", "fp8_bias_gelu_amax_aux", "fp8_row_bias_gelu", "fp8_row_bias_gelu_amax_aux",
        "fp8_mixed_gradient", "gradient_f8e5m2", "gelu_fp8_amax", "gelu_tanh_fp8_amax", "swiglu_fp8_amax", "quantise_fp8", "quantise_fp8_rows",
        "delayed_scale", "fp8_block_linear", "fp8_block_input_gradient", "fp8_block_weight_gradient", "fp8_block_quantise",
        "fp8_block_quantise_128x128", "fp8_row_column_quantise", "bias_silu_block_scale", "mxfp8_quantise",
    ]),
    ("integers: 8 and 4 bits", &[
        "w8a8", "w8a8_requantise", "w8a8_zero_points", "smoothquant", "quantise_i8", "quantise_i8_rows", "quantise_u8", "dequantise_residual",
        "w8a16", "w8a16_decode", "w4a16", "w4a16_decode",
    ]),
];

/// Kernels that are not listed above: a test asks for their group.
pub(super) const UNGROUPED: &str = "others";

/// Names of CUTLASS that descriptions do not hold: fusion operations, visitor nodes and kinds of GEMM.
#[rustfmt::skip] // A table.
pub(super) const CUTLASS: &[(&str, &[&str])] = &[
    ("lincomb", &["LinComb", "LinearCombination"]),
    ("lincomb_scalars_in_memory", &["LinearCombination", "Sm90ScalarBroadcast"]),
    ("lincomb_bias", &["Sm90RowBroadcast"]),
    ("lincomb_row_bias", &["Sm90ColBroadcast"]),
    ("lincomb_bias_relu_mask", &["LinCombPerColBiasEltActAux"]),
    ("lincomb_row_bias_relu_mask", &["LinCombPerRowBiasEltActAux"]),
    ("lincomb_topk_softmax", &["Sm90TopKSoftmaxColReduction"]),
    ("linear", &["LinCombPerColBias"]),
    ("linear_gelu", &["LinCombPerColBiasEltAct"]),
    ("linear_silu", &["LinCombPerColBiasEltAct"]),
    ("linear_gelu_aux", &["LinCombPerColBiasEltActAux", "Sm90AuxStore"]),
    ("linear_gelu_tanh_aux", &["LinCombPerColBiasEltActAux"]),
    ("linear_batch_norm", &["Sm100BatchNormApply"]),
    ("residual", &["LinearCombination", "Sm90SrcFetch"]),
    ("relu_backward", &["LinCombDeEltAct", "dReLU_Z"]),
    ("silu_backward", &["LinCombDeEltAct"]),
    ("gelu_backward_bias", &["LinCombDeEltActDePerColBias"]),
    ("gelu_tanh_backward_bias", &["LinCombDeEltActDePerColBias", "dGELU"]),
    ("product_amax", &["Sm90ScalarReduction", "maximum_absolute_value_reduction"]),
    ("batch_norm_statistics", &["Sm90RowReduction"]),
    ("layer_statistics", &["Sm90ColReduction"]),
    ("swiglu_interleaved", &["Sm90GatedActivation"]),
    ("geglu_interleaved", &["Sm90GatedActivation"]),
    ("gelu_fp8_amax", &["ScaledLinCombPerColBiasEltActAmaxAux"]),
    ("moe_linear", &["GemmGrouped", "GroupProblemShape"]),
    ("moe_weight_gradient", &["LinearCombinationGroupedWgrad"]),
    ("batched_product", &["GemmBatched", "GemmUniversal"]),
    ("w4a16", &["MixedInput"]),
    ("w8a16", &["MixedInput"]),
    ("fp8_block_linear", &["FP8Blockwise"]),
    ("lincomb_block_scale", &["Sm100BlockScaleFactorRowStore"]),
];
