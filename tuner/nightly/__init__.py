"""The nightly job: what is due, measured within a budget on a machine that is fit for it, and told in the morning."""
