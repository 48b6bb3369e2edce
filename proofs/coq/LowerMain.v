(* The theorem of LowerStatement.v. *)
Require Import Evr.Setup.
Require Import Evr.Order Evr.ComposerSound Evr.Step Evr.StepSound Evr.Reader Evr.Judge Evr.JudgeSound Evr.Measure Evr.Meaning Evr.Sampled Evr.Main.
Require Import Evr.LowerGrid Evr.LowerStep Evr.LowerStepSound Evr.LowerTests Evr.LowerJudge Evr.LowerJudgeSound Evr.LowerStatement.
Local Open Scope classical_set_scope. Local Open Scope ring_scope.
Unset Implicit Arguments.
Local Open Scope R_scope.

(* T3 *)
Theorem refuted_main : refuted_is_true.
Proof.
move=> t F bounds Ht; have [m [s [ts [l [b [Es [Hm [Hts [Hl [Hb [Eb Hx]]]]]]]]]]] := refuted_one t F bounds Ht.
have [d Ed] : exists d, m = mark_of d by case: m Hm {Es Hl} => // _; [exists remove | exists add].
have Eup : (match m with Add => false | _ => true end) = (if d is remove then true else false) by rewrite Ed; case: (d).
have bits0 : (0 <= s_bits s)%Z.
  move: Eb; rewrite /lower_bound; case: (states_epsilon F s) => //=; case: (Z.leb_spec 0 (s_bits s)) => //.
exists d, s, b; split; first by rewrite Es Ed. split=> // laws order Hlaws Ho found; split; first exact: exceeds_ok Hx.
rewrite /found composed_step; last exact: K_phi. rewrite -word_meaning.
pose mu k := step_of (laws k) d.
have Lmu k : law (mu k) by exact: step_laws.
have Fub i j f : K f -> comp (mu i) (mu j) f = comp (mu j) (mu i) f.
  exact: (law_of_fubini (P_all (laws i) d) (P_all (laws j) d) (@m_x (laws i) d) (@m_x (laws j) d) (@x_pos (laws i) d) (@x_pos (laws j) d)).
have S0 : (0 < 2 ^ s_bits s)%Z by apply: Z.pow_pos_nonneg; lia.
apply: (lower_bound_ok F s l b mu Eb Lmu Fub _ order Ho) => k X Hk.
have [cl [kd [tbits [thresholds [values [Hcl [Hkd [Hv HX]]]]]]]] := scores_of_nth m s _ _ _ _ k _ Hts Hl Hk.
exists kd; split=> [//|den0].
have Hlaw : law_text F k = snd cl by rewrite /law_text; apply: List.nth_error_nth; rewrite List.nth_error_map Hcl.
have Hlen : (k < List.length (f_steps F))%coq_nat by apply/List.nth_error_Some; rewrite Hcl.
have Hn := Hlaws k Hlen; rewrite Hlaw in Hn.
apply: (score_of_ok _ _ (s_spacing s) kd 0%Z values X _ (Lmu k) S0 den0 (esym HX)) => f Kf.
rewrite Rmult_0_l Rplus_0_r; have := own_step Hv Hn Kf; rewrite Eup /mu; by case: (d).
Qed.
