"""Administrative requests that the controller carries out."""
