(* The theorems of Statement.v (main) and, of Training.v, T1 (computed_main). *)
Require Import Evr.Setup.
Require Import Evr.Order Evr.ComposerSound Evr.Step Evr.StepSound Evr.Reader Evr.Laws Evr.Enclose Evr.Judge Evr.JudgeSound Evr.Measure.
Require Import Evr.Statement Evr.Meaning Evr.Sampled Evr.OwnSound.
Local Open Scope classical_set_scope. Local Open Scope ring_scope.
Unset Implicit Arguments.
Local Open Scope R_scope.

(* numbers that are listed truly, or computed, enclose the curve *)
Lemma listed_encloses den spacing law d k mu : k_source k <> Own -> listed_truly den spacing law d k mu -> encloses den spacing k mu.
Proof.
rewrite /listed_truly /encloses; case: (k_source k) => // infinite sets _ [ms [z [h1 [h2 [h3 [h4 h5]]]]]].
exists ms, z; do 4 (split; first by []).
by move=> f Kf; rewrite osum_meaning; apply: h5; apply/K_meaning.
Qed.
Lemma own_encloses den spacing law m d kd values mu : refused_kind m law kd = None -> k_source kd = Own -> serves m d ->
  own_values den spacing (match m with Add => false | _ => true end) law kd = Values values ->
  listed_truly den spacing law d kd mu -> encloses den spacing (Kind (k_grid kd) (k_vbits kd) (Curve values)) mu.
Proof.
move=> Hr Ek Hs Hv; rewrite /listed_truly Ek => -[n [Hn Hmu]]; have [o [Eo Hab]] := both_rate _ _ _ Hr Ek.
have := own_piece_ok _ _ _ _ _ _ _ _ n Hv Hn; rewrite places_e /encloses /=.
suff E y : mu (excess y) = step_of n (if match m with Add => false | _ => true end then remove else add) (excess y).
  by elim=> [|p vd ps l h _ IH]; constructor=> //; rewrite -/(excess _) E.
rewrite Hmu stepE; last exact: K_phi.
suff : m = Both -> step_of n add (excess y) = step_of n remove (excess y).
  case: m d Hs {Hmu Hv Hr Hab} => [] [] Hs E; [exact: erefl | by case: Hs | by case: Hs | exact: erefl | exact: erefl | exact: (E erefl)].
move=> /Hab {}Hab; symmetry; apply: one_way.
have [o' [Eo' [-> _]]] := Hn; move: Eo'; rewrite Eo => -[<-]; rewrite Hab.
by have [/IZR_lt Hb _] := read_own_ok _ _ Eo; rewrite /Rdiv Rinv_r //; lra.
Qed.

(* a file that is not refused, for laws as functionals *)
Theorem functional t F bounds w mu d : judge_text t = Judged F bounds w -> (forall why, w <> Refused why) ->
  (forall k, law (mu k)) -> (forall i j f, K f -> comp (mu i) (mu j) f = comp (mu j) (mu i) f) ->
  (forall m s k kd, (k < List.length (f_steps F))%coq_nat -> List.In (m, s) (f_sections F) -> serves m d -> List.nth_error (s_kinds s) k = Some kd ->
     listed_truly (s_den s) (s_spacing s) (law_text F k) d kd (mu k)) ->
  forall order, states_order F order -> composed mu order (excess (epsilon F)) <= delta F.
Proof.
move=> Hj Hw Hl Hf Hlist order Ho; rewrite -word_meaning.
have [Hr [_ [Hd [ss [Hss Hall]]]]] := judged _ _ _ _ Hj Hw.
have [m [s [Hin Hs]]] : exists m s, List.In (m, s) (f_sections F) /\ serves m d.
  move: (refused_both F Hr); rewrite /both_directions.
  case: (f_sections F) => [//|[[] s] [|[[] s'] [|? ?]]] // _.
  - by case: d {Hlist}; [exists Remove, s | exists Add, s']; split=> //=; auto.
  - by exists Both, s; split=> //=; auto.
have [s' [Hin' [Eden [Esp Ekinds]]]] := filled _ _ _ _ _ _ Hss Hin.
apply: (section_sound F ss m s' mu Hd Hall Hin' Hl Hf _ order Ho) => k kd' Hk; rewrite Eden Esp.
have [cl [kd [Hcl [Hkd Hfill]]]] := filled_kind _ _ _ _ _ _ _ _ Ekinds Hk.
have Hlaw : law_text F k = snd cl by rewrite /law_text; apply: List.nth_error_nth; rewrite List.nth_error_map Hcl.
have Hlen : (k < List.length (f_steps F))%coq_nat by apply/List.nth_error_Some; rewrite Hcl.
have Hlk := Hlist m s k kd Hlen Hin Hs Hkd; rewrite Hlaw in Hlk.
move: Hfill; rewrite /fill_kind; case Ek: (k_source kd) => [values|infinite sets|].
- by move=> [<-]; apply: listed_encloses Hlk; rewrite Ek.
- by move=> [<-]; apply: listed_encloses Hlk; rewrite Ek.
case Ev: own_values => [values|//] [<-]; apply: own_encloses Ev Hlk => //.
exact: (refused_kinds _ _ _ _ _ _ Hr Hin Hcl Hkd).
Qed.

(* T0 *)
Theorem main : accepted_is_true.
Proof.
move=> t F bounds w Hj Hw disp T P x P1 mx x0 mu Hlist d order Ho.
apply: (functional t F bounds w (mu d) d Hj Hw) => //.
- by move=> k; exact: (law_of_is_law (P1 _ _) (mx _ _) (x0 _ _)).
- by move=> i j f Kf; exact: (law_of_fubini (P1 _ _) (P1 _ _) (mx _ _) (mx _ _) (x0 _ _) (x0 _ _) Kf).
- by move=> m s k kd _ Hin Hs Hk; exact: (Hlist m s d k kd Hin Hs Hk).
Qed.

(* T1. In Training.v a step is an integral against Lebesgue measure; the two agree on falling convex functions. *)
Lemma composed_step laws d w : forall f, K f -> composed (fun k => step (laws k) d) w f = composed (fun k => step_of (laws k) d) w f.
Proof.
have E k f g : (forall x, 0 <= x -> f x = g x) -> step (laws k) d f = step (laws k) d g.
  move=> fg; rewrite /step; congr fine; apply: eq_integral => t _; congr EFin; congr Rmult; apply: fg.
  by have := @x_pos (laws k) d t; rewrite /x_of /dens_p /dens_q /p_of /q_of bellE with_recordE; case: d.
elim: w => [//|k w IH] f Kf /=.
have KF : K (fun x => composed (fun k => step_of (laws k) d) w (fun y => f (x * y))).
  have -> : (fun x => composed (fun k => step_of (laws k) d) w (fun y => f (x * y))) =
    (fun x => word (fun k => step_of (laws k) d) w (fun y => f (x * y))) by apply: funext => x; rewrite word_meaning.
  by apply: K_under => //; apply: law_word => j; exact: step_laws.
rewrite -(stepE (laws k) d KF); apply: E => x x0; apply: IH; exact: K_inner.
Qed.
Theorem functional_main t F bounds laws d order : judge_text t = Judged F bounds Proved -> states_laws F laws -> states_order F order ->
  composed (fun k => step_of (laws k) d) order (excess (epsilon F)) <= delta F.
Proof.
move=> Hj Hlaws Ho; have Hw why : Proved <> Refused why by [].
pose mu k := step_of (laws k) d. have Lmu k : law (mu k) by exact: step_laws.
have Fub i j f : K f -> comp (mu i) (mu j) f = comp (mu j) (mu i) f.
  exact: (law_of_fubini (P_all (laws i) d) (P_all (laws j) d) (@m_x (laws i) d) (@m_x (laws j) d) (@x_pos (laws i) d) (@x_pos (laws j) d)).
apply: (functional t F bounds Proved mu d Hj Hw Lmu Fub _ order Ho) => m s k kd Hlen Hin Hs Hk.
have [_ [Hsaid _]] := judged _ _ _ _ Hj Hw.
have Ek := proved_own F (esym Hsaid) m s k kd Hin Hk; rewrite /listed_truly Ek.
by exists (laws k); split; [exact: Hlaws | move=> y; rewrite stepE //; exact: K_phi].
Qed.
Theorem computed_main : computed_is_true.
Proof.
move=> t F bounds Hj laws order Hlaws Ho d; rewrite composed_step; last exact: K_phi.
exact: (functional_main t F bounds laws d order Hj Hlaws Ho).
Qed.
