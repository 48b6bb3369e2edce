(* The native checker: reads a proof file or a refutation, tells damage by its digest, runs what Coq extracted, prints. Not proved: this file. *)
open Native

(* SHA-256 of a string, in hexadecimal: FIPS 180-4. Nothing but the word "damaged" rests on it. *)
let sha256 text =
  let mask = 0xffffffff in
  let rotated x n = ((x lsr n) lor (x lsl (32 - n))) land mask in
  let primes n = let rec go k found = if List.length found = n then List.rev found else
    go (k + 1) (if List.exists (fun p -> k mod p = 0) found then found else k :: found) in go 2 [] in
  (* the first 32 bits of the fractional part of the r-th root of p *)
  let root r p = let big = Zz.shift_left (Zz.of_int p) (32 * r) in Zz.to_int (Zz.logand (Zz.root big r) (Zz.of_int mask)) in
  let k = Array.of_list (List.map (root 3) (primes 64)) in
  let h = Array.of_list (List.map (root 2) (primes 8)) in
  let n = String.length text in
  let padded = Bytes.make ((n + 72) / 64 * 64) '\000' in
  Bytes.blit_string text 0 padded 0 n;
  Bytes.set padded n '\128';
  Bytes.set_int64_be padded (Bytes.length padded - 8) (Int64.of_int (8 * n));
  let w = Array.make 64 0 in
  for block = 0 to Bytes.length padded / 64 - 1 do
    for i = 0 to 63 do
      w.(i) <- if i < 16 then Int32.to_int (Bytes.get_int32_be padded (64 * block + 4 * i)) land mask else
        let a = w.(i - 15) and b = w.(i - 2) in
        let s0 = rotated a 7 lxor rotated a 18 lxor (a lsr 3) and s1 = rotated b 17 lxor rotated b 19 lxor (b lsr 10) in
        (w.(i - 16) + s0 + w.(i - 7) + s1) land mask
    done;
    let v = Array.copy h in
    for i = 0 to 63 do
      let e = v.(4) and a = v.(0) in
      let s1 = rotated e 6 lxor rotated e 11 lxor rotated e 25 and ch = (e land v.(5)) lxor (lnot e land v.(6)) in
      let t1 = (v.(7) + s1 + ch + k.(i) + w.(i)) land mask in
      let s0 = rotated a 2 lxor rotated a 13 lxor rotated a 22 in
      let t2 = (s0 + ((a land v.(1)) lxor (a land v.(2)) lxor (v.(1) land v.(2)))) land mask in
      Array.blit v 0 v 1 7;
      v.(4) <- (v.(4) + t1) land mask;
      v.(0) <- (t1 + t2) land mask
    done;
    Array.iteri (fun i x -> h.(i) <- (h.(i) + x) land mask) v
  done;
  String.concat "" (List.map (Printf.sprintf "%08x") (Array.to_list h))

let fails word = print_endline word; exit 2

(* the text before the line "sha256 ...", which is the last one *)
let body data =
  let n = String.length data in
  if n < 72 || n > 1 lsl 26 || String.sub data (n - 72) 7 <> "sha256 " || data.[n - 1] <> '\n' || data.[n - 73] <> '\n' then fails "unreadable";
  let text = String.sub data 0 (n - 72) in
  if sha256 text <> String.sub data (n - 65) 64 then fails "damaged";
  (match String.split_on_char ' ' (String.map (fun c -> if c = '\n' then ' ' else c) text) with
   | ("evr-proof" | "evr-refutation") :: version :: _ when version <> "2" && version <> "" -> fails "not version 2"
   | _ -> ());
  text

let codes = Array.init 256 Zz.of_int
let text_of string = let rec go i l = if i < 0 then l else go (i - 1) (codes.(Char.code string.[i]) :: l) in go (String.length string - 1) []
let string_of text = String.concat "" (List.map (fun c -> String.make 1 (Char.chr (Zz.to_int c))) text)
let mark_of = function Remove -> "remove" | Add -> "add" | Both -> "both"

let why file = function
  | NoRelation -> "relation " ^ string_of file.f_relation
  | NotUnder law -> "law " ^ string_of law
  | Directions -> "directions"
  | Listed law -> "listed " ^ string_of law
  | NotOwn law -> "own " ^ string_of law
  | BadNumbers law -> "numbers " ^ string_of law
  | OneWay law -> "both " ^ string_of law
  | Wide (mark, law, place) -> Printf.sprintf "place %s %s %s" (mark_of mark) (string_of law) (Zz.to_string place)
  | NotShown -> "bound"

let () =
  let listed, names = List.partition ((=) "--listed") (List.tl (Array.to_list Sys.argv)) in
  let name = match names with [name] -> name | _ -> prerr_endline "usage: check_proof [--listed] training.proof"; exit 2 in
  let data =
    try let ic = open_in_bin name in really_input_string ic (in_channel_length ic)
    with Sys_error why -> prerr_endline why; exit 2 in
  let text = body data in
  let conditional code = if listed = [] then 4 else code in
  let say file bounds words code =
    print_endline words;
    if bounds <> [] then List.iter2 (fun (mark, s) bound ->
      Printf.printf "%s %s %s\n" (mark_of mark) (match bound with Some b -> Zz.to_string b | None -> "-") (Zz.to_string s.s_bits))
      file.f_sections bounds;
    exit code in
  let refused file bounds reason = say file bounds ("refused\nreason " ^ why file reason) 3 in
  if String.length text > 14 && String.sub text 0 14 = "evr-refutation" then
    match refute_text (text_of text) with
    | NoRefutation -> fails "unreadable"
    | TooLargeRefutation -> fails "too large"
    | LowerJudged (file, bounds, Refuted) -> say file bounds "refuted for DP-SGD" 5
    | LowerJudged (file, bounds, RefutedIfListed) -> say file bounds "refuted if the listed numbers are right" (conditional 5)
    | LowerJudged (file, bounds, RefutedIfLaw) -> say file bounds "refuted if the law is right for replace-one neighbours" (conditional 5)
    | LowerJudged (file, bounds, NotRefuted reason) -> refused file bounds reason
  else
    match judge_text (text_of text) with
    | Unreadable -> fails "unreadable"
    | TooLarge -> fails "too large"
    | Judged (file, bounds, Proved) -> say file bounds "proved for DP-SGD" 0
    | Judged (file, bounds, IfListed) -> say file bounds "accepted if the listed numbers are right" (conditional 0)
    | Judged (file, bounds, IfLaw) -> say file bounds "accepted if the law is right for replace-one neighbours" (conditional 0)
    | Judged (file, bounds, Refused reason) -> refused file bounds reason
