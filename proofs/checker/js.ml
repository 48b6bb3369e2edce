(* The checker for JavaScript: globalThis.judgeProof, proofTasks and proofPiece (the end of zz.js). *)
open Checker

(* a verdict as numbers, a law and a place: zz.js has the words for them *)
let told = function
  | Proved -> (0, [], Zz.zero) | IfListed -> (1, [], Zz.zero) | IfLaw -> (2, [], Zz.zero)
  | Refused NoRelation -> (3, [], Zz.zero) | Refused (NotUnder law) -> (4, law, Zz.zero) | Refused Directions -> (5, [], Zz.zero)
  | Refused (Listed law) -> (6, law, Zz.zero) | Refused (NotOwn law) -> (7, law, Zz.zero) | Refused (BadNumbers law) -> (8, law, Zz.zero)
  | Refused (OneWay law) -> (9, law, Zz.zero) | Refused (Wide (Add, law, place)) -> (11, law, place)
  | Refused (Wide (Remove, law, place)) -> (10, law, place) | Refused (Wide (Both, law, place)) -> (12, law, place)
  | Refused NotShown -> (13, [], Zz.zero)

external export :
  ((Zz.t -> Zz.t -> bool -> text -> kind -> computed) -> text -> answer) -> (text -> ((Zz.t * Zz.t) * Zz.t) list) ->
  (text -> Zz.t -> Zz.t -> Zz.t -> Zz.t -> computed) -> (verdict -> int * text * Zz.t) -> unit = "proof_export"
let () =
  export (judge verify) tasks
    (fun t number k from count -> match read t with Some f -> piece f number k from count | None -> Fails from) told
