(* What is computed in pieces is what is computed at once, and leads to the same answer. *)
Require Import ZArith List Bool Lia FunctionalExtensionality.
Require Import Evr.Lists Evr.Integers Evr.Masses Evr.Product Evr.Composer Evr.Step Evr.Reader Evr.Enclose Evr.Judge.
Import ListNotations.
Open Scope Z_scope.

Lemma drop_0 (l : list Z) : drop l 0 = l.
Proof. destruct l; reflexivity. Qed.
Lemma drop_drop (l : list Z) : forall a b, 0 <= a -> 0 <= b -> drop (drop l a) b = drop l (a + b).
Proof.
  induction l as [|x l IH]; intros a b Ha Hb; [reflexivity|]. cbn [drop]. destruct (Z.leb_spec a 0).
  - replace a with 0 by lia. reflexivity.
  - destruct (Z.leb_spec (a + b) 0); [lia|]. rewrite IH by lia. f_equal. lia.
Qed.
Lemma len_drop (l : list Z) : forall a, 0 <= a <= Z.of_nat (length l) -> Z.of_nat (length (drop l a)) = Z.of_nat (length l) - a.
Proof.
  induction l as [|x l IH]; intros a Ha; cbn [drop length] in *; [lia|].
  destruct (Z.leb_spec a 0); cbn [length]; [lia|]. rewrite IH; lia.
Qed.
Lemma len_take (l : list Z) : forall a, 0 <= a <= Z.of_nat (length l) -> Z.of_nat (length (take l a)) = a.
Proof.
  induction l as [|x l IH]; intros a Ha; cbn [take length] in *; [lia|].
  destruct (Z.leb_spec a 0); cbn [length]; [lia|]. rewrite Nat2Z.inj_succ, IH; lia.
Qed.
Lemma take_all (l : list Z) : forall a, Z.of_nat (length l) <= a -> take l a = l.
Proof.
  induction l as [|x l IH]; intros a Ha; cbn [take length] in *; [reflexivity|].
  destruct (Z.leb_spec a 0); [lia|]. f_equal. apply IH. lia.
Qed.

Lemma each_out at1 at2 : forall ps i out, each at1 at2 ps i out = joined (Values (rev out)) (each at1 at2 ps i []).
Proof.
  induction ps as [|p ps IH]; intros i out; simpl.
  - rewrite app_e, rev_append_rev. reflexivity.
  - assert (N : forall vd, each at1 at2 ps (i + 1) (vd :: out) = joined (Values (rev out)) (each at1 at2 ps (i + 1) [vd])).
    { intros vd. rewrite (IH _ (vd :: out)), (IH _ [vd]). simpl. destruct (each at1 at2 ps (i + 1) []); simpl; auto.
      rewrite app_e. simpl. rewrite <- app_assoc. reflexivity. }
    destruct (at1 p); [apply N|]. destruct (at2 p); [apply N|reflexivity].
Qed.
Lemma each_app at1 at2 : forall ps ps' i, each at1 at2 (ps ++ ps') i [] = joined (each at1 at2 ps i []) (each at1 at2 ps' (i + zlen ps) []).
Proof.
  assert (Z : forall (a : Z) l, zlen (a :: l) = 1 + zlen l) by (intros; rewrite !zlen_len; simpl length; lia).
  induction ps as [|p ps IH]; intros ps' i.
  - simpl. replace (i + zlen []) with i by (unfold zlen; simpl; lia). destruct (each at1 at2 ps' i []); simpl; rewrite ?app_e; reflexivity.
  - simpl app. cbn [each]. replace (i + zlen (p :: ps)) with (i + 1 + zlen ps) by (rewrite Z; lia).
    assert (N : forall vd, each at1 at2 (ps ++ ps') (i + 1) [vd] = joined (each at1 at2 ps (i + 1) [vd]) (each at1 at2 ps' (i + 1 + zlen ps) [])).
    { intros vd. rewrite (each_out _ _ (ps ++ ps')), (each_out _ _ ps), IH.
      destruct (each at1 at2 ps (i + 1) []), (each at1 at2 ps' (i + 1 + zlen ps) []); simpl; rewrite ?app_e; try rewrite app_assoc; reflexivity. }
    destruct (at1 p); [apply N|]. destruct (at2 p); [apply N|reflexivity].
Qed.
Lemma own_piece_app den spacing up law kd ps ps' i :
  own_piece den spacing up law kd (ps ++ ps') i = joined (own_piece den spacing up law kd ps i) (own_piece den spacing up law kd ps' (i + zlen ps)).
Proof.
  unfold own_piece. destruct (Laws.read_own law) as [o|]; [|reflexivity].
  destruct (half_z _ _ _ _) as [zlo zhi]. destruct (multipliers o _) as [below above].
  match goal with |- (if ?c then _ else _) = _ => destruct c; [|reflexivity] end. apply each_app.
Qed.

(* all pieces of a kind, one after the other *)
Fixpoint pieces (F : file) (number k from : Z) (counts : list Z) : computed :=
  match counts with
  | [] => Fails from
  | [c] => piece F number k from c
  | c :: counts' => joined (piece F number k from c) (pieces F number k (from + c) counts')
  end.

Theorem whole F number k counts m s n law kd :
  get (f_sections F) number = Some (m, s) -> get (f_steps F) k = Some (n, law) -> get (s_kinds s) k = Some kd ->
  counts <> [] -> Forall (fun c => 0 <= c) counts -> fold_right Z.add 0 counts = zlen (places_t (k_grid kd)) ->
  pieces F number k 0 counts = own_values (s_den s) (s_spacing s) (match m with Add => false | _ => true end) law kd.
Proof.
  intros Es El Ek Hne Hpos Hsum. unfold own_values. set (ps := places_t (k_grid kd)) in *.
  set (up := match m with Add => false | _ => true end).
  enough (H : forall counts from, counts <> [] -> Forall (fun c => 0 <= c) counts -> 0 <= from -> from + fold_right Z.add 0 counts = zlen ps ->
    pieces F number k from counts = own_piece (s_den s) (s_spacing s) up law kd (drop ps from) from).
  { rewrite H; auto; try lia. rewrite drop_0. reflexivity. }
  clear Hne Hpos Hsum counts.
  assert (P : forall from c, piece F number k from c = own_piece (s_den s) (s_spacing s) up law kd (take (drop ps from) c) from).
  { intros. unfold piece. rewrite Es, El, Ek, take_e. reflexivity. }
  induction counts as [|c counts IH]; intros from Hne Hpos Hfrom Hsum; [congruence|]. inversion Hpos as [|? ? Hc Hcs]; subst.
  cbn [fold_right] in Hsum.
  assert (S : forall l, 0 <= fold_right Z.add 0 l \/ ~ Forall (fun c => 0 <= c) l).
  { induction l as [|x l [H|H]]; simpl; [lia| |right; intros F'; inversion F'; auto].
    destruct (Z.le_gt_cases 0 x); [left; lia | right; intros F'; inversion F'; lia]. }
  destruct (S counts) as [H0|]; [|tauto].
  assert (Hlen : zlen (drop ps from) = c + fold_right Z.add 0 counts) by (rewrite !zlen_len in *; rewrite len_drop; lia).
  destruct counts as [|c' counts].
  - cbn [pieces]. rewrite P. rewrite zlen_len in Hlen. simpl in Hlen. rewrite take_all by lia. reflexivity.
  - change (pieces F number k from (c :: c' :: counts)) with (joined (piece F number k from c) (pieces F number k (from + c) (c' :: counts))).
    rewrite (IH (from + c)) by (try congruence; auto; lia). rewrite P.
    rewrite <- (take_drop (drop ps from) c) at 2. rewrite own_piece_app. f_equal.
    rewrite (zlen_len (take _ _)), len_take by (rewrite zlen_len in Hlen; lia). rewrite drop_drop by lia. reflexivity.
Qed.

(* [judge] asks for nothing but these values *)
Theorem judge_by compute t :
  (forall den spacing up law kd, compute den spacing up law kd = own_values den spacing up law kd) -> judge verify compute t = judge_text t.
Proof.
  intros H. unfold judge_text. f_equal. do 5 (apply functional_extensionality; intro). apply H.
Qed.
