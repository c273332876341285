"""Programs of the site's own, run when something becomes known of a notice."""
