package op

// FlashAttentionFunctions are the functions of flash-attn that mark an attention block behind a
// PythonOp for ONNX Runtime.
var FlashAttentionFunctions = []string{
	"flash_attn.flash_attn_interface.FlashAttnVarlenFunc",
	"flash_attn.flash_attn_interface.FlashAttnFunc",
}

// RecomputablePythonFunctions are the functions whose PythonOp ONNX Runtime's memory
// optimizer recomputes.
var RecomputablePythonFunctions = append([]string{
	"flash_attn.bert_padding.IndexFirstAxis",
	"flash_attn.bert_padding.IndexPutFirstAxis",
}, FlashAttentionFunctions...)
