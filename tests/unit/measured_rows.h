/* measured_rows.h: a few published measurements, in the columns that plan --validate reads.
 *
 * Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM"
 * (arXiv:2104.04473), table 1; the BigScience workshop's chronicles of the 176B model (bigscience, train/tr11-176B-ml);
 * llm.c's scripts (karpathy/llm.c); MosaicML's llm-foundry benchmark tables. */
#ifndef MEASURED_ROWS_H
#define MEASURED_ROWS_H

#define MEASURED_NAMES                                                                                                 \
    "id,source,model,layers,hidden,heads,kv_heads,ffn_hidden,vocab,seq_len,gpu_type,n_gpus,gpus_per_node,dp,tp,pp,"    \
    "interleave_v,micro_batch,global_batch_seqs,zero_stage,recompute,sequence_parallel,precision,measured_metric,"     \
    "value,source_group,program,link_inside,link_between_gbps_per_gpu,context_parallel,attention,overlap,gather_8bit," \
    "fp8_scaling,memory_metric,notes\n"

enum { MEASURED_ROWS = 12 };

static const char *const measured_rows[MEASURED_ROWS] = {
    "n1,Narayanan et al. 2021; table 1,GPT-1.7B,24,2304,24,24,9216,51200,2048,A100-80GB-SXM,32,8,32,1,1,1,16,512,0,"
    "full,0,fp16,hw_tflops_per_gpu,137,narayanan-2021,megatron-2021,,200,,,,,,,8xHDR200\n",
    "n2,Narayanan et al. 2021; table 1,GPT-39.1B,48,8192,64,64,32768,51200,2048,A100-80GB-SXM,512,8,32,8,2,1,4,1536,0,"
    "full,0,fp16,hw_tflops_per_gpu,138,narayanan-2021,megatron-2021,,200\n",
    "n3,Narayanan et al. 2021; table 1,GPT-145.6B,80,12288,96,96,49152,51200,2048,A100-80GB-SXM,1536,8,24,8,8,2,2,"
    "2304,0,full,0,fp16,hw_tflops_per_gpu,148,narayanan-2021,megatron-2021,,200\n",
    "b1,\"bigscience (02-21), single sample\",GPT-72L,72,14336,64,64,57344,250880,2048,A100-80GB-SXM,384,8,4,8,12,1,1,"
    "2048,1,full,0,fp16,iteration_seconds,143.31,bloom,megatron-2021,nvlink3-no-switch,50\n",
    "b2,\"bigscience (02-21), single sample\",GPT-72L,72,14336,64,64,57344,250880,2048,A100-80GB-SXM,384,8,4,8,12,1,2,"
    "2048,1,full,0,fp16,iteration_seconds,134.02,bloom,megatron-2021,nvlink3-no-switch,50\n",
    "b3,\"bigscience (02-25), single sample\",GPT-72L,72,14336,64,64,57344,250880,2048,A100-80GB-SXM,384,8,8,4,12,1,4,"
    "2048,1,full,0,fp16,iteration_seconds,111.89,bloom,megatron-2021,nvlink3-no-switch,50\n",
    "b1m,bigscience (02-21),GPT-72L,72,14336,64,64,57344,250880,2048,A100-80GB-SXM,384,8,4,8,12,1,1,2048,1,full,0,"
    "fp16,peak_memory_gib,29,bloom,megatron-2021\n",
    "b3m,bigscience (02-25),GPT-72L,72,14336,64,64,57344,250880,2048,A100-80GB-SXM,384,8,8,4,12,1,4,2048,1,full,0,"
    "fp16,peak_memory_gib,60,bloom,megatron-2021\n",
    "l1,llm.c,GPT-2-774M,36,1280,20,20,5120,50257,1024,A100-80GB-SXM,8,8,8,1,1,1,32,512,1,none,0,bf16,"
    "iteration_seconds,1.7,llm.c,native\n",
    "m1,llm-foundry,MPT-13b,40,5120,40,40,20480,50368,2048,H100-80GB-SXM,16,8,16,1,1,1,2,32,3,none,0,bf16-amp,"
    "tokens_per_s_per_gpu,4767,mosaicml,fsdp,,,,flash\n",
    "m2,llm-foundry,MPT-13b,40,5120,40,40,20480,50368,2048,A100-40GB-SXM,8,8,8,1,1,1,4,512,3,full,0,bf16-pure,"
    "tokens_per_s_per_gpu,1668,mosaicml,fsdp,,,,flash\n",
    "m3,llm-foundry,MPT-7b,32,4096,32,,16384,50368,2048,H100-80GB-SXM,256,8,256,1,1,,,1536,3,,,bf16-amp,mfu_pct,44.15,"
    "\n",
};

#endif
