//! Which kernels of the library one Hopper launch takes at M = N = K = 4096: a list that may only grow.
//!
//! A new kernel is named in one of the tables. A refused kernel that is taken now moves to [`PLANNED`]; nothing moves back.

use postlude::placement::Placements;
use postlude::target::Chip;
use postlude::{Options, Problem, Sizes, problem};

/// Kernels whose last launch is planned; some read what launches before it compute.
const PLANNED: &[&str] = &[
    "adamw_step",
    "apply_rms",
    "attention",
    "attention_statistics",
    "batch_norm_statistics",
    "batched_bias_gradient",
    "batched_bias_silu",
    "batched_product",
    "batched_shared_weight",
    "bce_gradient",
    "bce_loss",
    "bce_loss_gradient",
    "bias_silu_block_scale",
    "causal_attention_statistics",
    "causal_scores",
    "classifier_loss",
    "classifier_loss_backward",
    "col_scaled_lincomb_relu",
    "col_scaled_relu_residual",
    "cosine_similarity",
    "crammer_singer_loss",
    "cross_entropy",
    "cross_entropy_backward",
    "cross_entropy_chunk",
    "cross_entropy_chunk_gradient",
    "cross_entropy_gradient",
    "cross_entropy_loss",
    "deepseek_router",
    "delayed_scale",
    "dequantise_residual",
    "distillation_loss",
    "distillation_loss_logprobs",
    "dropout",
    "dropout_bits",
    "fp8_bias_gelu",
    "fp8_bias_gelu_amax_aux",
    "fp8_block_input_gradient",
    "fp8_block_linear",
    "fp8_block_quantise",
    "fp8_block_quantise_128x128",
    "fp8_block_weight_gradient",
    "fp8_mixed_gradient",
    "fp8_product",
    "fp8_row_bias_gelu",
    "fp8_row_bias_gelu_amax_aux",
    "fp8_row_col_scaled",
    "fp8_row_column_quantise",
    "geglu",
    "geglu_backward",
    "geglu_interleaved",
    "gelu_backward_bias",
    "gelu_backward_row_bias",
    "gelu_fp8_amax",
    "gelu_tanh_backward_bias",
    "gelu_tanh_fp8_amax",
    "glu",
    "gradient_f8e5m2",
    "gram",
    "greedy_statistics",
    "greedy_token",
    "grouped_query_statistics",
    "gumbel_token",
    "gumbel_token_philox",
    "huber_loss",
    "huber_loss_gradient",
    "layer_norm_rows",
    "layer_statistics",
    "lincomb",
    "lincomb_bias",
    "lincomb_bias_gelu_aux",
    "lincomb_bias_relu",
    "lincomb_bias_relu_mask",
    "lincomb_block_scale",
    "lincomb_gelu_backward",
    "lincomb_relu",
    "lincomb_row_bias",
    "lincomb_row_bias_gelu_aux",
    "lincomb_row_bias_relu_mask",
    "lincomb_row_bias_silu",
    "lincomb_scalars_in_memory",
    "linear",
    "linear_batch_norm",
    "linear_clamp",
    "linear_cross_entropy",
    "linear_cross_entropy_backward",
    "linear_cross_entropy_backward_chunk",
    "linear_gelu",
    "linear_gelu_aux",
    "linear_gelu_tanh",
    "linear_gelu_tanh_aux",
    "linear_silu",
    "linear_snake",
    "lm_head_statistics",
    "lora_linear",
    "lora_linear_backward",
    "lstm_cell",
    "moe_bias_gradient",
    "moe_combine",
    "moe_forward",
    "moe_fp8_linear",
    "moe_gathered_linear",
    "moe_input_gradient",
    "moe_linear",
    "moe_masked_linear",
    "moe_router",
    "moe_swiglu",
    "moe_weight_gradient",
    "mse_loss",
    "mse_loss_gradient",
    "multi_margin_loss_scored",
    "multihead_causal_scores",
    "mxfp8_quantise",
    "nearest_code",
    "pairwise_distances",
    "per_head_rms_norm",
    "per_head_rms_norm_rotary",
    "philox_dropout",
    "philox_dropout_backward",
    "product_amax",
    "product_f32",
    "product_nn",
    "product_nt",
    "product_tn",
    "product_tt",
    "qkv_norm_rotary",
    "qkv_norm_rotary_halves",
    "qkv_split",
    "quantise_fp8",
    "quantise_i8",
    "quantise_u8",
    "reglu",
    "reglu_backward",
    "reglu_interleaved",
    "relu_backward",
    "relu_mask_backward",
    "residual",
    "residual_dropout",
    "residual_layer_scale",
    "residual_rms_statistic",
    "rms_norm_linear",
    "rms_norm_rows",
    "rms_statistic",
    "rotary_halves",
    "rotary_interleaved",
    "row_mean_variance",
    "row_scaled_lincomb_relu",
    "scaled_product",
    "silu_backward",
    "sinkhorn_columns",
    "sinkhorn_rows",
    "smoothed_cross_entropy_loss",
    "smoothquant",
    "softcap",
    "softcap_cross_entropy",
    "softmax_rows",
    "swiglu",
    "swiglu_aux",
    "swiglu_backward",
    "swiglu_fp8_amax",
    "swiglu_interleaved",
    "swiglu_interleaved_backward",
    "swiglu_mlp",
    "swiglu_mlp_backward",
    "target_rank_scored",
    "token_logprob_entropy",
    "top2_margin",
    "topk_tokens",
    "transposed_copy",
    "u8_product",
    "w4a16",
    "w4a16_decode",
    "w8a16",
    "w8a16_decode",
    "w8a8",
    "w8a8_requantise",
    "w8a8_zero_points",
    "weight_gradient",
    "weight_update_stochastic",
];

/// Kernels whose rows meet a reduction of their own, which at this size takes several launches.
const SEVERAL_LAUNCHES: &[&str] = &[
    "batched_causal_softmax",
    "cross_entropy_softmax_gradient",
    "deepseek_grouped_router",
    "lincomb_topk_softmax",
    "linear_layer_norm",
    "linear_log_softmax",
    "linear_rms_norm",
    "linear_softmax",
    "multi_margin_loss",
    "quantise_fp8_rows",
    "quantise_i8_rows",
    "target_rank",
    "topk_router",
];

/// What the planner says of a kernel.
fn planned(name: &str, source: &str) -> Result<(), String> {
    let compiled = super::kernel(name, source).compile(&Options::default());
    let names = problem::dim_names(compiled.defined());
    // The columns of a split are as many as its parts together.
    let is_split = names.contains(&"KV");
    let size = |dim: &str| match dim {
        "Q" => 2048,
        "KV" => 1024,
        "L" | "B" | "G" | "H" => 3,
        _ => 4096,
    };
    let names = names.into_iter().filter(|dim| *dim != "N" || !is_split);
    let sizes: Sizes = names.map(|dim| (dim.to_owned(), size(dim))).collect();
    let graph = compiled.optimised();
    let problem = Problem::new(graph, &sizes).unwrap_or_else(|error| panic!("{name}: {error}"));
    let placements = Placements::packed(graph, &problem);
    let planning = compiled.planning(&problem, &placements, Chip::STANDARD);
    let planning = planning.map_err(|error| error.summary())?;
    planning.best().map(|_| ()).map_err(|error| error.to_string())
}

/// What a table says of a kernel.
enum Listed {
    OneLaunch,
    /// For a reason that contains this.
    Refused(String),
    Nowhere,
}

fn listed(name: &str) -> Listed {
    if PLANNED.contains(&name) {
        return Listed::OneLaunch;
    }
    if SEVERAL_LAUNCHES.contains(&name) {
        return Listed::Refused("meet a reduction of their own row".to_owned());
    }
    Listed::Nowhere
}

#[test]
fn hopper_takes_the_kernels_that_are_listed() {
    let mut wrong = Vec::new();
    for (name, source) in super::sources() {
        match (listed(&name), planned(&name, &source)) {
            (Listed::Nowhere, _) => wrong.push(format!("{name} is in no table")),
            (Listed::OneLaunch, Err(reason)) => {
                wrong.push(format!("{name} was one launch: {reason}"));
            }
            (Listed::Refused(_), Ok(())) => {
                wrong.push(format!("{name} is one launch now: list it"));
            }
            (Listed::Refused(part), Err(reason)) if !reason.contains(&part) => {
                wrong.push(format!("{name} is refused for another reason: {reason}"));
            }
            (Listed::OneLaunch, Ok(())) | (Listed::Refused(_), Err(_)) => {}
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_kernel_that_is_listed_is_there_once() {
    let known: Vec<String> = super::sources().into_iter().map(|(name, _)| name).collect();
    let listed = PLANNED.iter().chain(SEVERAL_LAUNCHES);
    let mut listed: Vec<String> = listed.map(|name| (*name).to_owned()).collect();
    listed.sort();
    assert_eq!(listed, known);
}
