(* The checker for JavaScript: globalThis.judgeProof. *)
external export : (Zz.t list -> Checker.answer) -> unit = "proof_export"
let () = export Checker.judge_text
